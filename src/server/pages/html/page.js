// Makes a page live, and its times local. Without this script a page is complete, and reloads while something goes on.
"use strict";
(() => {
  const main = document.getElementById("main");
  const note = document.getElementById("connection");
  const SILENT = 45000; // The service says something every 15 s; a proxy that holds that back is no use.
  const FIRST = 15000; // The longest wait for the first word of a stream.
  const POLL = 30000; // Between two loads where no stream comes through.
  let source = null, guard = 0, retry = 0, failures = 0, isEnded = false;

  // Times: local, with UTC on hover; ages go on.
  const units = [[31536000, "y"], [2592000, "mo"], [86400, "d"], [3600, "h"], [60, "min"], [0, "s"]];
  const age = (at) => {
    const seconds = Math.max(0, Math.floor((Date.now() - at) / 1000));
    const [size, unit] = units.find(([size]) => seconds >= size);
    return size ? Math.floor(seconds / size) + " " + unit : seconds + " " + unit;
  };
  const pad = (number) => String(number).padStart(2, "0");
  const local = (d) => `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ` +
    `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
  const times = (within) => {
    for (const time of within.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (isNaN(at)) continue;
      const absolute = at.toISOString().slice(0, 19).replace("T", " ") + " UTC";
      const isAge = time.className === "age" || time.closest(".grid");
      const text = isAge ? age(at) : local(at);
      if (time.textContent !== text) time.textContent = text;
      const title = isAge ? `${local(at)} (${absolute})` : absolute;
      if (time.title !== title) time.title = title;
    }
  };

  // Changes a part of the page into another, node by node: scroll, focus, open details and typed text stay.
  const attributes = (old, fresh) => {
    const keeps = (name) => name === "open" && old.nodeName === "DETAILS";
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && !keeps(name)) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value && !keeps(name)) old.setAttribute(name, value);
    }
  };
  const morph = (old, fresh) => {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeName !== fresh.nodeName) return void old.replaceWith(fresh);
    if (old.nodeType !== Node.ELEMENT_NODE) return void (old.data = fresh.data);
    attributes(old, fresh);
    if (["INPUT", "SELECT", "TEXTAREA"].includes(old.nodeName)) return;
    const named = new Map([...old.children].filter((one) => one.id).map((one) => [one.id, one]));
    let next = old.firstChild;
    for (const wanted of [...fresh.childNodes]) {
      const isSame = next && !next.id && next.nodeName === wanted.nodeName;
      const match = wanted.id ? named.get(wanted.id) : isSame ? next : null;
      if (!match) old.insertBefore(wanted, next);
      else {
        if (match === next) next = next.nextSibling;
        else old.insertBefore(match, next);
        morph(match, wanted);
      }
    }
    while (next) {
      const gone = next;
      next = next.nextSibling;
      gone.remove();
    }
  };
  const keepFocus = (change) => {
    const focused = document.activeElement;
    const name = focused && (focused.id ? "#" + CSS.escape(focused.id)
      : focused.getAttribute && focused.getAttribute("href") ? `a[href="${CSS.escape(focused.getAttribute("href"))}"]` : "");
    change();
    if (focused && document.activeElement !== focused) {
      const again = focused.isConnected ? focused : name && main.querySelector(name);
      if (again) again.focus({ preventScroll: true });
    }
    times(main);
  };
  const show = (html) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    const fresh = page.getElementById("main");
    if (!fresh) return location.reload();
    keepFocus(() => morph(main, fresh));
    document.title = page.title;
    const icon = page.getElementById("icon");
    if (icon) document.getElementById("icon").href = icon.getAttribute("href");
  };
  // An element of a patch takes the place of the one with its id, or of the cell with its first link.
  const patch = (html) => {
    const template = document.createElement("template");
    template.innerHTML = html;
    keepFocus(() => {
      for (const fresh of [...template.content.children]) {
        const link = fresh.querySelector("a[href]");
        const old = fresh.id ? document.getElementById(fresh.id)
          : link && main.querySelector(`td > a[href="${CSS.escape(link.getAttribute("href"))}"]`)?.parentNode;
        if (old) morph(old, fresh);
      }
    });
  };

  const say = (text) => {
    note.hidden = !text;
    note.textContent = text;
  };
  const load = async () => {
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (answer.redirected || answer.status === 401) return location.reload();
      if (answer.ok) show(await answer.text());
    } catch { /* the next one */ }
  };
  const close = () => {
    if (source) source.close();
    source = null;
    clearTimeout(guard);
    clearTimeout(retry);
  };
  const fail = () => {
    close();
    failures += 1;
    say(failures > 1 ? "No live updates; trying again." : "");
    if (failures > 2) load();
    const wait = failures > 2 ? POLL : 2000 * failures;
    retry = setTimeout(connect, wait * (0.5 + Math.random()));
  };
  const watch = (wait) => {
    clearTimeout(guard);
    guard = setTimeout(fail, wait);
  };
  const connect = () => {
    close();
    if (!main.dataset.live || isEnded || document.hidden) return;
    const url = new URL(main.dataset.live, location.href);
    url.searchParams.set("version", main.dataset.version);
    source = new EventSource(url);
    const on = (name, act) => source.addEventListener(name, (event) => {
      failures = 0;
      say("");
      watch(SILENT);
      act(event);
      if (event.lastEventId) main.dataset.version = event.lastEventId;
    });
    watch(FIRST);
    on("alive", () => {});
    on("page", (event) => show(event.data));
    on("patch", (event) => patch(event.data));
    // Everybody hears of it at once, and need not come at once.
    on("stale", () => setTimeout(load, 4000 * Math.random()));
    on("end", () => {
      isEnded = true;
      close();
    });
    source.onerror = fail;
  };

  // Plots: the arrow keys go from value to value.
  document.addEventListener("keydown", (event) => {
    const plot = event.target.closest?.("svg.plot");
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!plot || !step) return;
    const columns = [...plot.querySelectorAll(".column")];
    const at = columns.indexOf(document.activeElement);
    const next = columns[at < 0 ? (step > 0 ? 0 : columns.length - 1) : at + step];
    if (next) next.focus();
    event.preventDefault();
  });

  times(document);
  setInterval(() => times(main), 20000);
  document.addEventListener("visibilitychange", () => {
    clearTimeout(retry);
    if (document.hidden) retry = setTimeout(close, 5000);
    else if (!source) connect();
  });
  connect();
})();
