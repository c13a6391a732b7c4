// SPDX-License-Identifier: Apache-2.0
//! The `Units` service on the wire. `schedule::unit` does the work.

use std::sync::Arc;

use api::action::schedule as action;
use api::convert::unit as convert;
use api::schedule::v0 as wire;
use api::schedule::v0::units_server::Units as Service;
use api::status::to_status;
use identity::{Effect, Identity, Permit, Target};
use model::error::Error;
use model::unit::{FileVerb, JobMode, Verb};
use schedule::unit::{Transient, UnitName, UnitType, Units, named};
use tonic::{Request, Response, Status};

use super::caller::Caller;

/// The service `Units`.
pub(super) struct UnitService {
    pub(super) identity: Arc<Identity>,
    pub(super) units: Units,
}

type Answer<T> = Result<Response<T>, Status>;

impl UnitService {
    /// A permit for all units: they are the node's.
    async fn permit<T>(
        &self,
        request: &Request<T>,
        action: &'static str,
    ) -> Result<(Caller, Permit), Status> {
        self.permit_stopping(request, action, false).await
    }

    /// The same; where the call also stops units, who may stop none is refused.
    async fn permit_stopping<T>(
        &self,
        request: &Request<T>,
        action: &'static str,
        stops: bool,
    ) -> Result<(Caller, Permit), Status> {
        let caller = Caller::of(&self.identity, request, action)?;
        let own = Target::own();
        let target = match stops {
            true => own.and(Effect::of_tenant(action::STOP_UNIT)),
            false => own,
        };
        let permit = caller.permit(target).await?;
        Ok((caller, permit))
    }

    async fn job(
        &self,
        request: Request<wire::UnitJobRequest>,
        action: &'static str,
        verb: impl FnOnce(bool) -> Verb,
    ) -> Answer<wire::UnitJob> {
        let (verb, wait) = (
            verb(request.get_ref().conditional),
            !request.get_ref().no_wait,
        );
        let mode = convert::mode(request.get_ref().mode).map_err(to_status)?;
        let stops = stops(verb, mode);
        let (caller, permit) = self.permit_stopping(&request, action, stops).await?;
        let unit = named("name", &request.get_ref().name).map_err(to_status)?;
        let done = self.units.job(&permit, unit, verb, mode, wait);
        let done = caller.unless_expelled(done).await?;
        Ok(Response::new(convert::to_job(done)))
    }

    async fn files(
        &self,
        request: Request<wire::UnitFilesRequest>,
        action: &'static str,
        verb: FileVerb,
    ) -> Answer<wire::UnitFilesResponse> {
        let (_, permit) = self.permit(&request, action).await?;
        let message = request.into_inner();
        if message.names.is_empty() {
            return Err(to_status(Error::invalid("names", "must name a unit")));
        }
        let units = all_named(&message.names)?;
        let changed = self
            .units
            .change_files(&permit, verb, units, message.runtime);
        let changed = changed.await.map_err(to_status)?;
        Ok(Response::new(convert::to_changes(changed)))
    }
}

/// Whether a job that isn't a stop stops units that run, or calls off what others have asked for:
/// by its verb, or because nothing else is to stay. What a start stops because of a `Conflicts=` is
/// the files' to say.
fn stops(verb: Verb, mode: JobMode) -> bool {
    match verb {
        Verb::Restart | Verb::TryRestart | Verb::ReloadOrRestart => true,
        Verb::Start | Verb::Stop | Verb::Reload => {
            matches!(mode, JobMode::Isolate | JobMode::Flush)
        }
    }
}

/// The units that the words of a field `names` mean.
fn all_named(names: &[String]) -> Result<Vec<UnitName>, Status> {
    let units = names.iter().enumerate();
    let units = units.map(|(at, name)| named(&format!("names[{at}]"), name));
    units.collect::<Result<_, _>>().map_err(to_status)
}

#[tonic::async_trait]
impl Service for UnitService {
    async fn list_units(
        &self,
        request: Request<wire::ListUnitsRequest>,
    ) -> Answer<wire::ListUnitsResponse> {
        let (_, permit) = self.permit(&request, action::LIST_UNITS).await?;
        let files = request.get_ref().files;
        let units = self.units.list(&permit, files).await.map_err(to_status)?;
        let units = units.into_iter().map(convert::to_status).collect();
        Ok(Response::new(wire::ListUnitsResponse { units }))
    }

    async fn get_unit(&self, request: Request<wire::GetUnitRequest>) -> Answer<wire::UnitDetail> {
        let (_, permit) = self.permit(&request, action::GET_UNIT).await?;
        let unit = named("name", &request.get_ref().name).map_err(to_status)?;
        let detail = self.units.get(&permit, unit).await.map_err(to_status)?;
        Ok(Response::new(convert::to_detail(detail)))
    }

    async fn start_unit(&self, request: Request<wire::UnitJobRequest>) -> Answer<wire::UnitJob> {
        self.job(request, action::START_UNIT, |_| Verb::Start).await
    }

    async fn stop_unit(&self, request: Request<wire::UnitJobRequest>) -> Answer<wire::UnitJob> {
        self.job(request, action::STOP_UNIT, |_| Verb::Stop).await
    }

    async fn restart_unit(&self, request: Request<wire::UnitJobRequest>) -> Answer<wire::UnitJob> {
        let verb = |conditional| match conditional {
            true => Verb::TryRestart,
            false => Verb::Restart,
        };
        self.job(request, action::RESTART_UNIT, verb).await
    }

    async fn reload_unit(&self, request: Request<wire::UnitJobRequest>) -> Answer<wire::UnitJob> {
        let verb = |conditional| match conditional {
            true => Verb::ReloadOrRestart,
            false => Verb::Reload,
        };
        self.job(request, action::RELOAD_UNIT, verb).await
    }

    async fn kill_unit(
        &self,
        request: Request<wire::KillUnitRequest>,
    ) -> Answer<wire::KillUnitResponse> {
        let signal = convert::signal(&request.get_ref().signal).map_err(to_status)?;
        let stops = signal.is_stop();
        let permitted = self.permit_stopping(&request, action::KILL_UNIT, stops);
        let (_, permit) = permitted.await?;
        let message = request.into_inner();
        let unit = named("name", &message.name).map_err(to_status)?;
        let whom = convert::whom(message.whom, message.main_only).map_err(to_status)?;
        let sent = self.units.kill(&permit, unit, signal, whom);
        sent.await.map_err(to_status)?;
        Ok(Response::new(wire::KillUnitResponse {}))
    }

    async fn reset_failed_units(
        &self,
        request: Request<wire::ResetFailedUnitsRequest>,
    ) -> Answer<wire::ResetFailedUnitsResponse> {
        let (_, permit) = self.permit(&request, action::RESET_FAILED_UNITS).await?;
        let units = all_named(&request.get_ref().names)?;
        let reset = self.units.reset_failed(&permit, units);
        reset.await.map_err(to_status)?;
        Ok(Response::new(wire::ResetFailedUnitsResponse {}))
    }

    async fn enable_units(
        &self,
        request: Request<wire::UnitFilesRequest>,
    ) -> Answer<wire::UnitFilesResponse> {
        self.files(request, action::ENABLE_UNITS, FileVerb::Enable)
            .await
    }

    async fn disable_units(
        &self,
        request: Request<wire::UnitFilesRequest>,
    ) -> Answer<wire::UnitFilesResponse> {
        self.files(request, action::DISABLE_UNITS, FileVerb::Disable)
            .await
    }

    async fn mask_units(
        &self,
        request: Request<wire::UnitFilesRequest>,
    ) -> Answer<wire::UnitFilesResponse> {
        self.files(request, action::MASK_UNITS, FileVerb::Mask)
            .await
    }

    async fn unmask_units(
        &self,
        request: Request<wire::UnitFilesRequest>,
    ) -> Answer<wire::UnitFilesResponse> {
        self.files(request, action::UNMASK_UNITS, FileVerb::Unmask)
            .await
    }

    async fn preset_units(
        &self,
        request: Request<wire::PresetUnitsRequest>,
    ) -> Answer<wire::UnitFilesResponse> {
        let (_, permit) = self.permit(&request, action::PRESET_UNITS).await?;
        let message = request.into_inner();
        let mode = convert::preset_mode(message.mode).map_err(to_status)?;
        let units = all_named(&message.names)?;
        let verb = FileVerb::Preset(mode);
        let changed = self
            .units
            .change_files(&permit, verb, units, message.runtime);
        let changed = changed.await.map_err(to_status)?;
        Ok(Response::new(convert::to_changes(changed)))
    }

    async fn set_default_unit(
        &self,
        request: Request<wire::SetDefaultUnitRequest>,
    ) -> Answer<wire::UnitFilesResponse> {
        let (_, permit) = self.permit(&request, action::SET_DEFAULT_UNIT).await?;
        let unit = named("name", &request.get_ref().name).map_err(to_status)?;
        let changed = self
            .units
            .change_files(&permit, FileVerb::SetDefault, vec![unit], false);
        let changed = changed.await.map_err(to_status)?;
        Ok(Response::new(convert::to_changes(changed)))
    }

    async fn start_transient_unit(
        &self,
        request: Request<wire::StartTransientUnitRequest>,
    ) -> Answer<wire::UnitJob> {
        let (caller, permit) = self.permit(&request, action::START_TRANSIENT_UNIT).await?;
        let message = request.into_inner();
        let draft = Transient {
            unit: named("name", &message.name).map_err(to_status)?,
            text: message.text,
            starter: Some((UnitType::Timer, message.timer_text))
                .filter(|(_, text)| !text.is_empty()),
        };
        let done = self.units.start_transient(&permit, draft, !message.no_wait);
        let done = caller.unless_expelled(done).await?;
        Ok(Response::new(convert::to_job(done)))
    }

    async fn set_unit_properties(
        &self,
        request: Request<wire::SetUnitPropertiesRequest>,
    ) -> Answer<wire::SetUnitPropertiesResponse> {
        let (_, permit) = self.permit(&request, action::SET_UNIT_PROPERTIES).await?;
        let message = request.into_inner();
        let unit = named("name", &message.name).map_err(to_status)?;
        let settings = message.settings.into_iter();
        let settings: Vec<_> = settings.map(|it| (it.name, it.value)).collect();
        let set = self
            .units
            .set_properties(&permit, unit, &settings, message.runtime);
        set.await.map_err(to_status)?;
        Ok(Response::new(wire::SetUnitPropertiesResponse {}))
    }

    async fn get_unit_manager(
        &self,
        request: Request<wire::GetUnitManagerRequest>,
    ) -> Answer<wire::UnitManager> {
        let (_, permit) = self.permit(&request, action::GET_UNIT_MANAGER).await?;
        let given = self.units.given(&permit).await.map_err(to_status)?;
        Ok(Response::new(convert::to_manager(given)))
    }

    async fn set_unit_manager(
        &self,
        request: Request<wire::SetUnitManagerRequest>,
    ) -> Answer<wire::UnitManager> {
        let (_, permit) = self.permit(&request, action::SET_UNIT_MANAGER).await?;
        let message = request.into_inner();
        let watchdogs = message.service_watchdogs;
        let given = self
            .units
            .give(&permit, message.unset, &message.set, watchdogs);
        let given = given.await.map_err(to_status)?;
        Ok(Response::new(convert::to_manager(given)))
    }

    async fn reload_unit_files(
        &self,
        request: Request<wire::ReloadUnitFilesRequest>,
    ) -> Answer<wire::ReloadUnitFilesResponse> {
        let (_, permit) = self.permit(&request, action::RELOAD_UNIT_FILES).await?;
        self.units.reload(&permit).await.map_err(to_status)?;
        Ok(Response::new(wire::ReloadUnitFilesResponse {}))
    }
}
