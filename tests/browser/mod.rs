//! The pages in a real Chromium: what people see, with the keyboard, on small windows, without JavaScript.

mod pages; // the first page and a deployment
