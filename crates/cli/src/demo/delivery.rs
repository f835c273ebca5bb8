//! A parcel on its way: a state machine.

use serde::{Deserialize, Serialize};
use windlass::{
    machine::{Joined, MachineState, Poll},
    prelude::*,
};

/// The place that no courier goes to.
pub(crate) const NOWHERE: &str = "Tristan";

#[derive(MachineState, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Place {
    Packing,
    OnTheWay,
    Delivered,
    Returned,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Parcel {
    order: u32,
    city: String,
    label: Option<String>,
    /// How often the courier was asked.
    asked: u32,
}

impl Parcel {
    pub(crate) fn new(order: u32, city: &str) -> Self {
        Self { order, city: city.to_owned(), label: None, asked: 0 }
    }
}

pub(crate) struct Courier;

#[machine(state = Place, data = Parcel, initial = Packing, terminal = [Delivered, Returned], name = "delivery")]
impl Courier {
    async fn label(&self, data: &Parcel) -> Result<String> {
        Ok(format!("{}, parcel {}", data.city, data.order))
    }

    async fn weigh(&self) -> Result<u32> {
        Ok(1_250)
    }

    async fn announce(&self) -> Result<()> {
        Ok(())
    }

    #[on(Packing, to = [OnTheWay], split = [label, weigh, announce], join = all)]
    async fn packed(&self, data: &mut Parcel, results: Joined) -> Result<Place> {
        data.label = Some(results.get("label")?);
        Ok(Place::OnTheWay)
    }

    /// Asked again and again; between two questions the run costs nothing.
    #[on(OnTheWay, to = [Delivered, Returned], poll = "3s")]
    async fn courier(&self, data: &mut Parcel) -> Result<Poll<Place>> {
        data.asked += 1;
        Ok(match (data.asked, &*data.city) {
            (1, _) => Poll::Again,
            (_, NOWHERE) => Poll::Ready(Place::Returned),
            _ => Poll::Ready(Place::Delivered),
        })
    }
}

#[cfg(test)]
mod tests {
    use windlass::testing::Lab;

    use super::*;

    #[windlass::test]
    async fn a_parcel_is_delivered_where_couriers_go(lab: Lab) -> Result<()> {
        let engine = lab.engine().resource(Courier).workflow(Courier::workflow()).launch().await?;
        for (city, place) in [("Lisbon", Place::Delivered), (NOWHERE, Place::Returned)] {
            let end = engine.start(Courier::workflow(), Parcel::new(7, city)).await?.await?;
            assert_eq!((end.state, end.data.asked), (place, 2));
            assert_eq!(end.data.label, Some(format!("{city}, parcel 7")));
        }
        Ok(())
    }
}
