import type { Trace } from "./completion.ts";

/** Trace of a request without a connection: of a job, a batch line, or one that another request needs. */
export function backgroundTrace(
  known: Pick<Trace, "requestId" | "admittedAtMs" | "bodyBytes"> &
    Partial<Pick<Trace, "label" | "source" | "account" | "key" | "attempts" | "span">>,
): Trace {
  return {
    label: undefined,
    source: undefined,
    userHeader: undefined,
    startedMs: performance.now(),
    span: undefined,
    account: undefined,
    key: undefined,
    model: undefined,
    about: undefined,
    operation: undefined,
    isStream: false,
    instance: undefined,
    attempts: 0,
    endUser: undefined,
    firstByteAtMs: 0,
    usage: undefined,
    rate: undefined,
    // The request that caused it was counted; lines of a batch are not.
    isCountedForKey: true,
    rates: undefined,
    loweredMaxTokens: undefined,
    ...known,
  };
}
