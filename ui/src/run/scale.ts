/** Round numbers along a span of time. */
const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000,
  600_000, 900_000, 1_800_000, 3_600_000, 7_200_000, 14_400_000, 21_600_000, 43_200_000, 86_400_000,
  172_800_000, 604_800_000, 2_592_000_000,
];

/** At most six of them, from zero on. */
export function ticks(whole: number): number[] {
  const step = STEPS.find((one) => whole / one <= 6) ?? whole;
  return Array.from({ length: Math.floor(whole / step) + 1 }, (_, index) => index * step).filter(
    (tick) => tick < whole * 0.97,
  );
}
