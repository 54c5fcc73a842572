//! Estimates latency from the distance along the great circle, by a straight line that is fitted to measured round trips.
//!
//! The line was fitted to the mean round trips that IBM Cloud published for 45 pairs of ten cities.
//! The test below has these pairs, and checks the error that the answer reports.
//! The pairs are routes between data centres, so the latency of access networks is not included.

use serde::Serialize;

/// A place on the earth, in degrees.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Position {
    /// Degrees from -90 to 90; north is positive.
    pub latitude: f64,
    /// Degrees from -180 to 180; east is positive.
    pub longitude: f64,
}

/// How latencies were estimated, and how large the error can be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyModel {
    /// The round trip for a distance of 0, in milliseconds.
    pub base_ms: f64,
    /// The increase of the round trip for each 100 km of the great circle, in milliseconds. Light in a straight fibre would need 1 ms.
    pub ms_per_100_km: f64,
    /// Measured round trips, divided by the estimate.
    pub measured_over_estimate: Spread,
    /// Where the measurements are from.
    pub source: &'static str,
}

/// Percentiles of the measured round trips, divided by the estimate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// The smallest ratio.
    pub min: f64,
    /// One of ten measurements is below this percentile.
    pub p10: f64,
    /// The median.
    pub p50: f64,
    /// One of ten measurements is above this percentile.
    pub p90: f64,
    /// The largest ratio.
    pub max: f64,
}

/// The fitted model.
pub(super) const MODEL: LatencyModel = LatencyModel {
    base_ms: 3.4,
    ms_per_100_km: 1.52,
    measured_over_estimate: Spread { min: 0.81, p10: 0.89, p50: 1.0, p90: 1.59, max: 1.65 },
    source: "IBM Cloud, VPC documentation, inter-region latency from 2024-07-27 to 2024-08-25: 45 pairs of ten cities",
};

/// The mean radius of the earth.
const EARTH_KM: f64 = 6371.0088;

/// A direction from the centre of the earth, of length 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direction([f64; 3]);

impl From<Position> for Direction {
    fn from(position: Position) -> Direction {
        let (north, east) = (position.latitude.to_radians(), position.longitude.to_radians());
        Direction([north.cos() * east.cos(), north.cos() * east.sin(), north.sin()])
    }
}

impl Direction {
    /// The distance along the great circle.
    fn distance_km(self, other: Direction) -> f64 {
        let ([a, b, c], [x, y, z]) = (self.0, other.0);
        // For places near each other, the chord is exact. The cosine of the angle would not be.
        let chord = ((a - x).powi(2) + (b - y).powi(2) + (c - z).powi(2)).sqrt();
        2.0 * EARTH_KM * (chord / 2.0).min(1.0).asin()
    }

    /// The estimate of the model, in microseconds.
    pub(super) fn round_trip_us(self, other: Direction) -> u32 {
        let ms = MODEL.base_ms + MODEL.ms_per_100_km * self.distance_km(other) / 100.0;
        // The distance is at most half the earth's circumference, which gives 308 ms.
        (ms * 1000.0).round() as u32
    }
}

/// A number of degrees, at most `most` and at least `-most`.
pub(super) fn parse_degrees(text: &str, most: f64) -> Option<f64> {
    text.parse::<f64>().ok().filter(|degrees| degrees.abs() <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direction(latitude: f64, longitude: f64) -> Direction {
        Position { latitude, longitude }.into()
    }

    #[test]
    fn distances_are_those_of_the_great_circle() {
        let km = |a: (f64, f64), b: (f64, f64)| direction(a.0, a.1).distance_km(direction(b.0, b.1)).round();
        let half = (EARTH_KM * std::f64::consts::PI).round();
        for (a, b, expected) in [
            ((0.0, 179.9), (0.0, -179.9), 22.0),
            ((90.0, 0.0), (90.0, 135.0), 0.0),
            ((90.0, 0.0), (-90.0, 70.0), half),
            ((0.0, 0.0), (0.0, 180.0), half),
            ((0.0, -180.0), (0.0, 180.0), 0.0),
            ((51.508, -0.126), (48.853, 2.349), 344.0),
        ] {
            assert_eq!(km(a, b), expected, "{a:?} {b:?}");
        }
    }

    #[test]
    fn degrees_are_numbers_in_range() {
        assert_eq!(parse_degrees("-90", 90.0), Some(-90.0));
        for wrong in ["90.1", "NaN", "inf", "", "1,5", "0x1"] {
            assert_eq!(parse_degrees(wrong, 90.0), None, "{wrong}");
        }
    }

    /// The answers print an error of the latency model. It must be the model's error for these published measurements.
    #[test]
    fn the_error_of_the_model_is_that_of_the_published_measurements() {
        let cities = [
            ("Dallas", 32.783, -96.807),
            ("Toronto", 43.706, -79.399),
            ("Washington", 38.895, -77.036),
            ("Frankfurt", 50.116, 8.684),
            ("London", 51.509, -0.126),
            ("Madrid", 40.417, -3.703),
            ("Osaka", 34.694, 135.501),
            ("Sydney", -33.868, 151.207),
            ("Tokyo", 35.690, 139.692),
            ("Sao Paulo", -23.548, -46.636),
        ];
        let measured_ms: [[u32; 10]; 10] = [
            [0, 34, 31, 123, 113, 119, 150, 186, 143, 146],
            [34, 0, 19, 93, 82, 108, 168, 215, 162, 129],
            [31, 19, 0, 91, 75, 87, 172, 214, 164, 118],
            [123, 93, 91, 0, 13, 29, 232, 250, 233, 198],
            [113, 83, 75, 13, 0, 27, 244, 261, 243, 188],
            [122, 106, 88, 29, 27, 0, 257, 275, 258, 209],
            [150, 169, 172, 231, 243, 257, 0, 122, 9, 293],
            [186, 214, 214, 249, 261, 275, 122, 0, 115, 328],
            [143, 162, 166, 233, 244, 256, 9, 115, 0, 284],
            [144, 128, 119, 196, 187, 208, 291, 328, 283, 0],
        ];
        let mut ratios = Vec::new();
        for (a, from) in cities.iter().enumerate() {
            for (b, to) in cities.iter().enumerate().take(a) {
                let measured = f64::from(measured_ms[a][b] + measured_ms[b][a]) / 2.0;
                let estimate = f64::from(direction(from.1, from.2).round_trip_us(direction(to.1, to.2))) / 1000.0;
                ratios.push(measured / estimate);
            }
        }
        ratios.sort_by(f64::total_cmp);
        let at = |index: usize| (ratios[index] * 100.0).round() / 100.0;
        let spread = Spread { min: at(0), p10: at(4), p50: at(22), p90: at(40), max: at(44) };
        assert_eq!(spread, MODEL.measured_over_estimate);
    }
}
