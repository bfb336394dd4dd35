// Cuts a batch into runs of items of about one length: padding is wasted work. Pure.
export interface RunCosts {
  /** Fixed cost of a run, in tokens of work. */
  readonly perRun: number;
  /** Tokens of one run, padding included: what memory and the processor's cache bear. */
  readonly maxTokens: number;
}

/** Indexes of each run's items, shortest first; the partition of least cost. An item above `maxTokens` runs alone. */
export function planRuns(lengths: readonly number[], { perRun, maxTokens }: RunCosts): readonly (readonly number[])[] {
  const order = lengths.map((_, index) => index).sort((a, b) => lengthAt(lengths, a) - lengthAt(lengths, b) || a - b);
  /** cost[i]: the least for the first i items; from[i]: where the last run of that begins. */
  const cost = [0];
  const from = [0];
  for (let end = 1; end <= order.length; end++) {
    const longest = lengthAt(lengths, order[end - 1] as number);
    let best = Number.POSITIVE_INFINITY;
    let start = end - 1;
    for (let begin = end - 1; begin >= 0; begin--) {
      const tokens = (end - begin) * longest;
      if (tokens > maxTokens && begin < end - 1) break;
      const total = (cost[begin] as number) + perRun + tokens;
      if (total <= best) {
        best = total;
        start = begin;
      }
    }
    cost.push(best);
    from.push(start);
  }
  const runs: number[][] = [];
  for (let end = order.length; end > 0; end = from[end] as number) runs.unshift(order.slice(from[end], end));
  return runs;
}

const lengthAt = (lengths: readonly number[], index: number) => Math.max(1, lengths[index] ?? 1);
