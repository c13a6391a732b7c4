// SPDX-License-Identifier: Apache-2.0
//! Removing records with their logs, and ending first what still runs where that is asked for.

use std::sync::Arc;

use identity::permit::Permit;
use model::error::{Error, Reason};
use model::object::Kind;
use model::request::Remove;
use model::status::Object;

use super::Runtime;
use super::api::joined;
use super::effects::{demand_remove, demand_stop};
use super::index::Key;

impl Runtime {
    /// Removes a record with its logs. Answers how many went.
    ///
    /// # Errors
    /// `NOT_FOUND`, `NOT_EMPTY`, `WRONG_STATE` for what runs, without `force`.
    pub async fn remove(&self, permit: Permit, request: Remove) -> Result<u32, Error> {
        demand_remove(&permit, &request.target, request.recursive)?;
        let this = self.clone();
        let share = self.shared.tenants.share(&request.target.tenant);
        let removed = async move { this.remove_now(&permit, request).await };
        joined(tokio::spawn(share.run(removed))).await
    }

    async fn remove_now(&self, permit: &Permit, request: Remove) -> Result<u32, Error> {
        let object = self.shared.index.get(&request.target)?;
        let key = Key::of(&object);
        let cell = object.meta().kind == Kind::Cell;
        if cell && !request.recursive {
            self.refuse_full(&object, &key)?;
        }
        if !object.state().is_final() {
            demand_stop(permit, &request.target)?;
            self.check_place(permit, &key.tenant, &key.path)?;
            self.stop_to_remove(&object, &key, request.force).await?;
        }
        let meant = |object: &Arc<Object>| {
            let uid = object.meta().uid;
            (cell || uid == request.target.uid.unwrap_or(uid)) && object.state().is_final()
        };
        let ended = self.shared.index.subtree(&key).into_iter().filter(meant);
        let gone: Vec<_> = ended
            .filter_map(|object| self.shared.index.remove(object.meta().uid))
            .collect();
        // Answered once the next daemon would not find them either. Where it would, they are not
        // gone.
        if let Err(error) = self.shared.forget(&gone).await {
            for object in gone {
                self.shared.index.publish_known(Object::clone(&object));
            }
            return Err(error);
        }
        Ok(u32::try_from(gone.len()).unwrap_or(u32::MAX).max(1))
    }

    /// A cell that contains more than the executable that it was made for.
    fn refuse_full(&self, cell: &Object, key: &Key) -> Result<(), Error> {
        let made_for = self.owner_of(cell).and_then(|owner| owner.goes_with());
        let is_other = |object: &&Arc<Object>| {
            let uid = object.meta().uid;
            uid != cell.meta().uid && Some(uid) != made_for
        };
        let inside = self.shared.index.subtree(key);
        let count = inside.iter().filter(is_other).count();
        let message = match count {
            0 => return Ok(()),
            1 => format!("the cell {} contains 1 object", key.path),
            _ => format!("the cell {} contains {count} objects", key.path),
        };
        Err(Error::new(Reason::NotEmpty, message)
            .about("cell", key.path.to_string())
            .hint("remove them first, or say recursive"))
    }

    async fn stop_to_remove(
        &self,
        object: &Arc<Object>,
        key: &Key,
        force: bool,
    ) -> Result<(), Error> {
        match object.meta().kind {
            Kind::Cell => self.shared.index.close(key, !force)?,
            Kind::Executable if !force => {
                let message = format!("{} is {}", key.path, object.state());
                return Err(Error::new(Reason::WrongState, message)
                    .about("executable", key.path.to_string())
                    .hint("stop it first, or say force"));
            }
            Kind::Executable => {}
        }
        self.stop_object(object, None).await.map(drop)
    }
}
