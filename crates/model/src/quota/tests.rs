// SPDX-License-Identifier: Apache-2.0
//! The rules of quotas: what is read and shown, and that no tenant reaches another's part or the
//! reserve.

use proptest::prelude::*;

use super::*;

fn tenant(name: &str) -> Tenant {
    name.parse().unwrap()
}

fn limits(whole: u64, set: &[(&str, Quota, &str)]) -> Limits {
    let mut limits = Limits {
        capacity: Capacity {
            whole: BTreeMap::from([(Quota::Cells, whole), (Quota::MemoryMax, 4 << 30)]),
            reserve: 100,
        },
        set: BTreeMap::new(),
    };
    for (name, quota, text) in set {
        let amount = quota.parse(text).unwrap();
        limits
            .set
            .entry(tenant(name))
            .or_default()
            .0
            .insert(*quota, amount);
    }
    limits
}

#[test]
fn amounts_are_read_and_shown_as_people_write_them() {
    let cases = [
        (
            Quota::MemoryMax,
            "512M",
            Amount::Absolute(512 << 20),
            "512Mi",
        ),
        (
            Quota::MemoryMax,
            "1.5Gi",
            Amount::Absolute(3 << 29),
            "1536Mi",
        ),
        (Quota::MemoryMax, "10%", Amount::Share(100), "10%"),
        (Quota::MemoryMax, "12.5%", Amount::Share(125), "12.5%"),
        (Quota::MemoryHigh, "max", Amount::Unlimited, "max"),
        (Quota::CpuMax, "1.5", Amount::Absolute(1500), "1.500"),
        (Quota::CpuMax, "50%", Amount::Share(500), "50%"),
        (Quota::CpuWeight, "10000", Amount::Absolute(10_000), "10000"),
        (Quota::Cells, "64", Amount::Absolute(64), "64"),
        (
            Quota::IoReadBytes,
            "10M",
            Amount::Absolute(10 << 20),
            "10Mi",
        ),
        (Quota::IoWriteBytes, "max", Amount::Unlimited, "max"),
        (Quota::IoWrites, "100", Amount::Absolute(100), "100"),
    ];
    for (quota, text, amount, shown) in cases {
        assert_eq!(quota.parse(text).unwrap(), amount, "{text}");
        assert_eq!(amount.show(quota), shown);
    }
}

#[test]
fn what_is_no_amount_is_refused_by_the_quotas_name() {
    for (quota, text) in [
        (Quota::Cells, ""),
        (Quota::Cells, "-1"),
        (Quota::Cells, "64M"),
        (Quota::Cells, "0%"),
        (Quota::Cells, "101%"),
        (Quota::Cells, "1.23%"),
        (Quota::CpuMax, "0"),
        (Quota::CpuWeight, "0"),
        (Quota::CpuWeight, "max"),
        (Quota::CpuWeight, "10%"),
        (Quota::MemoryMax, "much"),
        (Quota::IoReadBytes, "10%"),
        (Quota::IoReadBytes, "1K"),
        (Quota::IoReads, "1"),
    ] {
        let error = quota.parse(text).unwrap_err();
        assert_eq!(error.field.as_deref(), Some(quota.as_str()), "{text}");
    }
}

#[test]
fn a_refusal_names_the_quota_its_size_and_its_use() {
    let limits = limits(100, &[("ann", Quota::Cells, "10%")]);
    let used = Used {
        tenant: 10,
        all: 10,
        administrators: 0,
    };
    let error = limits
        .admit(&tenant("ann"), Quota::Cells, 1, used)
        .unwrap_err();
    assert_eq!(error.reason, Reason::LimitExceeded);
    assert_eq!(
        error.message,
        "the tenant ann uses 10 of its 10 (10% of the node) of the quota cells; 1 more is too much"
    );
}

#[test]
fn a_refusal_says_when_to_try_again_where_the_pool_empties_by_itself() {
    let mut limits = limits(
        100,
        &[("ann", Quota::Cells, "10"), ("ann", Quota::Streams, "10")],
    );
    limits.capacity.whole.insert(Quota::Streams, 100);
    let again = |quota, wanted, tenant_has, all| {
        let used = Used {
            tenant: tenant_has,
            all,
            administrators: 0,
        };
        let refused = limits.admit(&tenant("ann"), quota, wanted, used);
        refused.unwrap_err().retry_after
    };
    // The calls that it has open end; its cells don't, unless it ends them.
    assert_eq!(again(Quota::Streams, 1, 10, 10), Some(AGAIN));
    assert_eq!(again(Quota::Cells, 1, 10, 10), None);
    // More than it may ever have.
    assert_eq!(again(Quota::Streams, 11, 0, 0), None);
    // Others have all that there is.
    assert_eq!(again(Quota::Streams, 1, 0, 90), Some(AGAIN));
    assert_eq!(again(Quota::Cells, 1, 0, 90), Some(AGAIN_WHEN_OTHERS_END));
}

#[test]
fn administrators_have_everything_unless_it_was_set() {
    let limits = limits(100, &[]);
    assert_eq!(limits.limit(&tenant("system"), Quota::Cells), 100);
    assert_eq!(limits.limit(&tenant("ann"), Quota::Cells), 50);
    let set = super::tests::limits(100, &[("system", Quota::Cells, "20")]);
    assert_eq!(set.limit(&tenant("system"), Quota::Cells), 20);
}

#[test]
fn what_is_set_survives_its_own_text() {
    let quotas: Quotas = "memory_max=12.5%\ncpu_max=1.5\ncells=64\npids=max\n"
        .parse()
        .unwrap();
    assert_eq!(quotas.to_string().parse::<Quotas>().unwrap(), quotas);
    assert!("nonsense=1".parse::<Quotas>().is_err());
}

proptest! {
    /// However tenants take and give back, no tenant passes its own quota, ordinary tenants never
    /// reach into the reserve, and administrators can always take what the reserve has.
    #[test]
    fn no_tenant_reaches_into_the_reserve_or_past_its_own(
        steps in proptest::collection::vec((0usize..4, 1u64..20, any::<bool>()), 1..200)
    ) {
        let names = ["ann", "bob", "eve", "system"].map(tenant);
        let limits = limits(100, &[("bob", Quota::Cells, "90%")]);
        let mut held = [0u64; 4];
        for (who, amount, back) in steps {
            if back {
                held[who] = held[who].saturating_sub(amount);
                continue;
            }
            let all = held.iter().sum();
            let used = Used { tenant: held[who], all, administrators: held[3] };
            let admitted = limits.admit(&names[who], Quota::Cells, amount, used).is_ok();
            if admitted {
                held[who] += amount;
            }
            prop_assert!(held[who] <= limits.limit(&names[who], Quota::Cells));
            prop_assert!(held[..3].iter().sum::<u64>() <= 90);
            prop_assert!(held.iter().sum::<u64>() <= 100);
            let left = 10u64.saturating_sub(held[3]);
            let used = Used { tenant: held[3], all: held.iter().sum(), administrators: held[3] };
            if left > 0 && held[..3].iter().sum::<u64>() + held[3] + left <= 100 {
                prop_assert!(limits.admit(&names[3], Quota::Cells, left, used).is_ok());
            }
        }
    }

    #[test]
    fn no_text_of_a_quota_does_harm(text: String) {
        for quota in Quota::ALL {
            if let Ok(amount) = quota.parse(&text) {
                let again = Quotas(BTreeMap::from([(*quota, amount)])).to_string();
                prop_assert!(again.parse::<Quotas>().is_ok(), "{again}");
            }
        }
    }
}
