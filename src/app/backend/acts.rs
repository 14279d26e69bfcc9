//! What people do beside deploying. Each goes on by itself: a caller who stops waiting must not
//! leave it half recorded.

use crate::app::backend::Backend;
use crate::app::removal;
use crate::model::removal::RemovalRequest;
use crate::server::ports::{self, Fault, Gone, NotRemoved};
use crate::store::Reply;

impl ports::Acts for Backend {
    async fn remove(
        &self,
        request: RemovalRequest,
        reply: Reply<Gone>,
    ) -> Result<Gone, NotRemoved> {
        let (world, store) = (self.world.clone(), self.store.clone());
        // On its own: a caller who stops waiting must not leave it half recorded.
        let removing =
            tokio::spawn(async move { removal::remove(&world, &store, request, reply).await });
        removing.await.unwrap_or_else(|fault| Err(Fault::new(fault).into()))
    }
}
