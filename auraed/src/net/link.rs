// SPDX-License-Identifier: Apache-2.0
//! One link as a pure state machine: observations in, actions out. `super` carries the actions out.
//!
//! ```text
//!            seen              carrier            link-local address
//!  (absent) ──────▶ Down ───────────────▶ Carried ───────────────────▶ Carried + v6
//!              SetUp, tune   ApplyStatic, StartDhcp4      StartDhcp6
//!                     ◀───────────────
//!                      carrier lost: StopClients
//! ```

use std::net::Ipv6Addr;

use super::config::LinkConfig;

/// The kernel's view of a link.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LinkView {
    pub(super) index: u32,
    pub(super) name: String,
    pub(super) mac: Vec<u8>,
    pub(super) up: bool,
    pub(super) carrier: bool,
    pub(super) loopback: bool,
}

/// An action on a link.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Before it comes up: router advertisements on or off, MTU.
    Tune,
    SetUp,
    ApplyStatic,
    StartDhcp4,
    /// From this link-local address.
    StartDhcp6(Ipv6Addr),
    /// And withdraw what they brought.
    StopClients,
}

/// One link that we manage.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) view: LinkView,
    pub(super) config: LinkConfig,
    link_local: Option<Ipv6Addr>,
    asked_up: bool,
    dhcp6_runs: bool,
}

impl Link {
    /// A link seen for the first time, with what to do first.
    pub(super) fn new(view: LinkView, config: LinkConfig) -> (Self, Vec<Action>) {
        let before = LinkView {
            carrier: false,
            ..view.clone()
        };
        let mut link = Self {
            view: before,
            config,
            link_local: None,
            asked_up: false,
            dhcp6_runs: false,
        };
        let mut actions = vec![Action::Tune];
        actions.extend(link.observe(view));
        (link, actions)
    }

    /// Takes the kernel's present view of the link; returns the actions that follow.
    pub(super) fn observe(&mut self, view: LinkView) -> Vec<Action> {
        let had_carrier = self.view.carrier;
        self.view = view;
        let mut actions = Vec::new();
        if !self.view.up && !self.asked_up {
            actions.push(Action::SetUp);
        }
        // Set up once: an administrator may take the link down later.
        self.asked_up = true;
        if self.view.loopback {
            return actions;
        }
        match (had_carrier, self.view.carrier) {
            (false, true) => {
                actions.push(Action::ApplyStatic);
                if self.config.dhcp4 && self.view.mac.len() == 6 {
                    actions.push(Action::StartDhcp4);
                }
                actions.extend(self.start_dhcp6());
            }
            (true, false) => {
                self.dhcp6_runs = false;
                actions.push(Action::StopClients);
            }
            _ => {}
        }
        actions
    }

    /// The link has a link-local address that passed duplicate detection, or has lost it.
    pub(super) fn observe_link_local(&mut self, address: Option<Ipv6Addr>) -> Vec<Action> {
        self.link_local = address;
        self.start_dhcp6().into_iter().collect()
    }

    fn start_dhcp6(&mut self) -> Option<Action> {
        let ready = self.view.carrier && self.config.dhcp6 && !self.dhcp6_runs;
        let address = self
            .link_local
            .filter(|_| ready && self.view.mac.len() == 6)?;
        self.dhcp6_runs = true;
        Some(Action::StartDhcp6(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

    fn view(up: bool, carrier: bool) -> LinkView {
        let mac = vec![2, 0, 0, 0, 0, 1];
        LinkView {
            index: 2,
            name: "eth0".to_owned(),
            mac,
            up,
            carrier,
            loopback: false,
        }
    }

    #[test]
    fn a_link_is_brought_up_once_and_served_when_it_has_a_carrier() {
        let (mut link, actions) = Link::new(view(false, false), LinkConfig::default());
        assert_eq!(actions, [Action::Tune, Action::SetUp]);
        assert_eq!(link.observe(view(true, false)), []);
        assert_eq!(
            link.observe(view(true, true)),
            [Action::ApplyStatic, Action::StartDhcp4]
        );
        assert_eq!(
            link.observe_link_local(Some(LOCAL)),
            [Action::StartDhcp6(LOCAL)]
        );
        assert_eq!(link.observe_link_local(Some(LOCAL)), []);
        assert_eq!(link.observe(view(true, true)), []);
    }

    #[test]
    fn a_pulled_cable_stops_the_clients_and_a_plugged_one_starts_them_again() {
        let (mut link, _) = Link::new(view(true, true), LinkConfig::default());
        link.observe_link_local(Some(LOCAL));
        assert_eq!(link.observe(view(true, false)), [Action::StopClients]);
        assert_eq!(
            link.observe(view(true, true)),
            [
                Action::ApplyStatic,
                Action::StartDhcp4,
                Action::StartDhcp6(LOCAL)
            ]
        );
    }

    #[test]
    fn a_link_taken_down_by_hand_stays_down() {
        let (mut link, _) = Link::new(view(false, false), LinkConfig::default());
        link.observe(view(true, true));
        assert_eq!(link.observe(view(false, false)), [Action::StopClients]);
    }

    #[test]
    fn loopback_only_comes_up() {
        let loopback = LinkView {
            loopback: true,
            ..view(false, false)
        };
        let (mut link, actions) = Link::new(loopback.clone(), LinkConfig::default());
        assert_eq!(actions, [Action::Tune, Action::SetUp]);
        assert_eq!(
            link.observe(LinkView {
                up: true,
                carrier: true,
                ..loopback
            }),
            []
        );
    }
}
