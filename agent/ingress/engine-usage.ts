// Questions to an engine about its work. Only our own runtime has `GET /usage/{id}`; other engines reply 404.
import { setTimeout as wait } from "node:timers/promises";
import type { Pool } from "undici";
import { boundedText } from "../../proto/bounded-text.ts";
import { readUnits } from "../../proto/usage.ts";
import { count, type EngineFigures } from "./find-usage.ts";

/** For the engine to stop. Speech stops after the sentence that it computes. */
const stopMs = 1_000;
/** For its reply: its thread may be busy. */
const boundMs = 5_000;
const pollMs = 40;
/** Maximum reply about its work. */
const maxBytes = 64 * 1024;

/** The figures when the engine has stopped, or a second later; undefined when it does not know or does not reply. Never rejects. */
export async function askEngineUsage(
  pool: Pool,
  id: string,
  headers: Record<string, string>,
): Promise<EngineFigures | undefined> {
  const signal = AbortSignal.timeout(boundMs);
  const stopUntil = performance.now() + stopMs;
  try {
    for (;;) {
      const answer = await pool.request({ method: "GET", path: `/usage/${id}`, headers, signal });
      if (answer.statusCode !== 200) {
        await answer.body.dump();
        return undefined;
      }
      const usage = JSON.parse(await boundedText(answer.body, maxBytes)) as Record<string, unknown>;
      if (usage["finished"] === true || performance.now() > stopUntil) return figuresOf(usage);
      await wait(pollMs, undefined, { signal });
    }
  } catch {
    return undefined;
  }
}

/** Counts prompts of one engine, one at a time: each reply is buffered, and the engine tokenises the prompt again. */
export class PromptCounter {
  #last: Promise<unknown> = Promise.resolve();

  /** Prompt tokens of a request's body, as vLLM counts them; undefined without a reply 5 s after the call. Never rejects. */
  count(pool: Pool, path: string, headers: Record<string, string>, body: Buffer): Promise<number | undefined> {
    const signal = AbortSignal.timeout(boundMs);
    const counted = this.#last.then(() => countPrompt(pool, path, headers, body, signal));
    this.#last = counted;
    return counted;
  }
}

async function countPrompt(
  pool: Pool,
  path: string,
  headers: Record<string, string>,
  body: Buffer,
  signal: AbortSignal,
): Promise<number | undefined> {
  try {
    const answer = await pool.request({
      method: "POST",
      path,
      headers: { ...headers, "content-type": "application/json" },
      body,
      signal,
    });
    const text = await boundedText(answer.body, Math.min(maxTokenizeBytes, maxBytes + body.length * bytesPerToken));
    const { count: tokens } = JSON.parse(text) as Record<string, unknown>;
    return answer.statusCode === 200 && Number.isSafeInteger(tokens) && Number(tokens) > 0 ? Number(tokens) : undefined;
  } catch {
    return undefined;
  }
}

/** A reply has every token besides the count. A token of the prompt has at least a byte in the body; the template adds some. */
const bytesPerToken = 8;
/** Maximum reply: a million tokens. */
const maxTokenizeBytes = 8 * 1024 * 1024;

function figuresOf(usage: Record<string, unknown>): EngineFigures | undefined {
  const input = count(usage["input_tokens"]);
  const output = count(usage["output_tokens"]);
  if (Number.isNaN(input) || Number.isNaN(output)) return undefined;
  const cachedInput = Math.min(input, count(usage["cached_input_tokens"]) || 0);
  return { input, cachedInput, output, reasoning: 0, units: readUnits(usage) };
}

const askLimitMs = 1_000;
const idlePollMs = 100;

/** A request that was cut here may still be stopping in the engine. True once it reports none running or waiting, or cannot report; false at the deadline or when the signal aborts. */
export async function engineIsIdle(
  pool: Pool,
  path: string,
  headers: Record<string, string>,
  deadlineMs: number,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const until = performance.now() + deadlineMs;
  for (;;) {
    if (!(await isWorking(pool, path, headers))) return true;
    if (performance.now() + idlePollMs > until || signal?.aborted) return false;
    await wait(idlePollMs, undefined, signal ? { signal } : {}).catch(() => {});
  }
}

async function isWorking(pool: Pool, path: string, headers: Record<string, string>): Promise<boolean> {
  try {
    const answer = await pool.request({
      method: "GET",
      path,
      headers,
      signal: AbortSignal.timeout(askLimitMs),
    });
    const text = await boundedText(answer.body, maxBytes);
    const { num_running: running, num_waiting: waiting } = JSON.parse(text) as Record<string, unknown>;
    return (typeof running === "number" && running > 0) || (typeof waiting === "number" && waiting > 0);
  } catch {
    return false;
  }
}
