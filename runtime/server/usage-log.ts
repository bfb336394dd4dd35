// Usage of the last requests: the agent reads it for a client that disconnected before its usage frame.
import { keepNewest } from "../../proto/keep-newest.ts";
import type { UnitCounts } from "../../proto/money.ts";
import { unitFields } from "../../proto/usage.ts";

/** Counts of one request, kept up to date while it runs: what a client that hangs up has used. */
export interface RunningUsage {
  inputTokens: number;
  cachedInputTokens: number;
  outputTokens: number;
  /** Those of outputTokens that were reasoning. */
  reasoningTokens?: number;
}

export interface UsageEntry extends RunningUsage {
  /** Units of a task that is not measured only in tokens. */
  units?: Partial<UnitCounts>;
  /** Counts no longer change. */
  isFinished: boolean;
  isAborted: boolean;
}

const kept = 2000;

export class UsageLog {
  readonly #entries = new Map<string, UsageEntry>();

  open(id: string): UsageEntry {
    const counts = { inputTokens: 0, cachedInputTokens: 0, outputTokens: 0 };
    return keepNewest(this.#entries, id, { ...counts, isFinished: false, isAborted: false }, kept);
  }

  find(id: string): UsageEntry | undefined {
    return this.#entries.get(id);
  }
}

export function usageBody(usage: RunningUsage) {
  return {
    prompt_tokens: usage.inputTokens,
    completion_tokens: usage.outputTokens,
    total_tokens: usage.inputTokens + usage.outputTokens,
    prompt_tokens_details: { cached_tokens: usage.cachedInputTokens },
    ...(usage.reasoningTokens ? { completion_tokens_details: { reasoning_tokens: usage.reasoningTokens } } : {}),
  };
}

export function usageRecord(entry: UsageEntry) {
  return {
    ...unitFields(entry.units ?? {}),
    input_tokens: entry.inputTokens,
    cached_input_tokens: entry.cachedInputTokens,
    output_tokens: entry.outputTokens,
    reasoning_tokens: entry.reasoningTokens ?? 0,
    finished: entry.isFinished,
    aborted: entry.isAborted,
  };
}
