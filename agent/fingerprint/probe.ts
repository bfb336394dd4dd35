/** One fact about the host. It may throw: the inventory goes on without it. */
export interface Probe<Facts> {
  readonly name: string;
  /** Bounded by itself; rejects with the signal's reason when aborted. */
  read(signal: AbortSignal): Promise<Facts>;
}
