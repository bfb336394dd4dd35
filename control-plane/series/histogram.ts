// Histogram of durations with fixed logarithmic buckets, so that histograms of any minutes and control planes can be added.

/** Buckets per doubling: the error of a percentile is at most 9 per cent. */
const perDoubling = 4;
/** The last bucket holds everything from an hour on. */
export const bucketCount = 89;

/** Number of durations by bucket; missing ones at the end are 0. */
export type Histogram = readonly number[];

export function bucketOf(ms: number): number {
  if (!(ms > 1)) return 0;
  return Math.min(bucketCount - 1, Math.ceil(Math.log2(ms) * perDoubling));
}

export function observe(histogram: number[], ms: number): void {
  const bucket = bucketOf(ms);
  while (histogram.length <= bucket) histogram.push(0);
  (histogram[bucket] as number) += 1;
}

/** Milliseconds below which `ratio` of the durations lie; null: there are none. */
export function quantile(histogram: Histogram, ratio: number): number | null {
  const total = histogram.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  const wanted = ratio * total;
  let below = 0;
  for (const [bucket, count] of histogram.entries()) {
    if (count > 0 && below + count >= wanted)
      return 2 ** ((bucket - 1 + Math.max(0, wanted - below) / count) / perDoubling);
    below += count;
  }
  return 2 ** ((histogram.length - 1) / perDoubling);
}
