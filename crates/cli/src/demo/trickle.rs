//! Those who keep the shop busy.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use windlass::Client;

use super::{
    checkout::{LARGE, Order, checkout},
    delivery::NOWHERE,
    letters::{Letter, email},
    shop::Shop,
    suppliers::{Bill, STRANGER, payout},
};
use crate::trouble::Trouble;

const CUSTOMERS: [&str; 10] = ["Ada", "Bo", "Chen", "Dia", "Eve", "Finn", "Gül", "Hana", "Ivo", "Jun"];
const CITIES: [&str; 6] = ["Lisbon", "Porto", "Madrid", "Lyon", "Torino", "Malmö"];
const GOODS: [&str; 5] = ["espresso beans", "filter coffee", "a hand mill", "two cups", "a kettle"];
const SUPPLIERS: [&str; 3] = ["Cooperativa Sul", "Yirga Union", "Kona Estate"];

/// How long it is from one customer to the next, on average.
const EVERY: Duration = Duration::from_millis(2_500);

/// Has customers order, and suppliers ask for money, until that fails.
pub(super) async fn serve_customers(client: &Client, shop: &Arc<Shop>, speed: u32) -> Result<(), Trouble> {
    let numbers = Numbers::since(client);
    // Something to approve and something to mend are there from the beginning.
    order(client, &numbers, large(&numbers)).await?;
    pay(client, &numbers, STRANGER).await?;
    for turn in 1_u32.. {
        let next = (EVERY / speed).mul_f64(0.4 + 1.2 * fastrand::f64());
        tokio::time::sleep(next).await;
        match turn % 16 {
            0 => order(client, &numbers, large(&numbers)).await?,
            5 => order(client, &numbers, Order { city: NOWHERE.to_owned(), ..small(&numbers) }).await?,
            9 => shop.receive(format!("prices-{}.csv", numbers.next())),
            4 | 12 => pay(client, &numbers, one_of(&SUPPLIERS)).await?,
            15 if turn % 64 == 15 => pay(client, &numbers, STRANGER).await?,
            _ => order(client, &numbers, small(&numbers)).await?,
        }
    }
    Ok(())
}

/// Numbers of orders, bills and files. They go on from demo to demo on one database.
pub(super) struct Numbers(AtomicU32);

impl Numbers {
    pub(super) fn since(client: &Client) -> Self {
        let seconds = client.now().0.div_euclid(1_000_000).rem_euclid(100_000_000);
        Self(AtomicU32::new(u32::try_from(seconds).unwrap_or_default()))
    }

    pub(super) fn next(&self) -> u32 {
        self.0.fetch_add(1, Relaxed)
    }
}

pub(super) fn small(numbers: &Numbers) -> Order {
    let [customer, city, goods] = [one_of(&CUSTOMERS), one_of(&CITIES), one_of(&GOODS)].map(str::to_owned);
    Order { number: numbers.next(), customer, city, goods, cents: fastrand::u64(900..9_000) }
}

fn large(numbers: &Numbers) -> Order {
    Order {
        goods: "an espresso machine".to_owned(),
        cents: LARGE + fastrand::u64(0..150_000),
        ..small(numbers)
    }
}

pub(super) async fn order(client: &Client, numbers: &Numbers, order: Order) -> Result<(), Trouble> {
    let (key, tag, priority) = (format!("order-{}", order.number), order.city.to_lowercase(), 3);
    let letter =
        Letter { to: format!("{}@mail.example", order.customer.to_lowercase()), subject: key.clone() };
    client.start(checkout::workflow(), order).key(key).tag(tag).priority(priority).await?;
    let letter = client.start(email::workflow(), letter).key(format!("letter-{}", numbers.next()));
    letter.queue(super::letters::LETTERS).queue_key("mail.example").await?;
    Ok(())
}

pub(super) async fn pay(client: &Client, numbers: &Numbers, supplier: &str) -> Result<(), Trouble> {
    let bill = Bill { supplier: supplier.to_owned(), cents: fastrand::u64(20_000..90_000) };
    client.start(payout::workflow(), bill).key(format!("bill-{}", numbers.next())).tag("suppliers").await?;
    Ok(())
}

pub(super) fn one_of(names: &[&'static str]) -> &'static str {
    names[fastrand::usize(..names.len())]
}
