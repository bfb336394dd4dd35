// Clients of a chaos world, and a ledger of what each of them saw: the only witness besides the model server that no fault reaches.
import { setTimeout as pause } from "node:timers/promises";
import { type Seeded, seeded } from "../../fakes/seed.ts";
import type { Account, ChaosWorld } from "./chaos-world.ts";

/** A client gives up then. */
const limitMs = 8_000;

export interface Outcome {
  /** Ours; empty where the connection was lost before the headers. */
  readonly id: string;
  readonly kind: "whole" | "cut" | "refused" | "away";
  readonly status: number;
  /** Output tokens that came. */
  readonly tokens: number;
  /** Numbers from 1: the control plane that was asked, and the agent of the model; 0: any agent. */
  readonly controlPlane: number;
  readonly agent: number;
  readonly account: string;
  /** Monotonic. */
  readonly sentMs: number;
  readonly endedMs: number;
  /** The answer's own words, of one that is not whole. */
  readonly why: string;
}

export interface Clients {
  readonly outcomes: readonly Outcome[];
  /** Request ids of webhook calls that were accepted. */
  readonly accepted: readonly string[];
  /** Waits until this many more answers came whole. */
  answered(more: number, limitMs: number): Promise<boolean>;
  /** Clients of streams hang up in the middle. */
  leave(isLeaving: boolean): void;
  /** Clients of streams stop reading for a while after each piece. */
  readSlowly(isSlow: boolean): void;
  stop(): Promise<void>;
}

interface Request {
  readonly controlPlane: number;
  readonly agent: number;
  readonly model: string;
  readonly account: Account;
  readonly maxTokens: number;
  readonly stream: boolean;
}

export function startClients(world: ChaosWorld, seed: number): Clients {
  const outcomes: Outcome[] = [];
  const accepted: string[] = [];
  const how = { isLeaving: false, isSlow: false };
  const over = new AbortController();

  async function read(body: ReadableStream<Uint8Array>, leaveAfter: number, leave: () => void): Promise<string> {
    let text = "";
    const decoder = new TextDecoder();
    try {
      for await (const bytes of body) {
        text += decoder.decode(bytes, { stream: true });
        if (how.isLeaving && text.length > leaveAfter) leave();
        if (how.isSlow) await pause(300);
      }
      return text;
    } catch (error) {
      throw new Cut(text, String(error));
    }
  }

  async function ask(of: Request, random: Seeded): Promise<Outcome> {
    const { controlPlane, agent, model, account, maxTokens, stream } = of;
    const at = world.stack.controlPlanes[controlPlane - 1];
    const sentMs = performance.now();
    let id = "";
    let status = 0;
    const told = (kind: Outcome["kind"], tokens: number, why = ""): Outcome => {
      const endedMs = performance.now();
      return {
        id,
        kind,
        status,
        tokens,
        controlPlane,
        agent,
        account: account.uid,
        sentMs,
        endedMs,
        why: why.slice(-300),
      };
    };
    const client = new AbortController();
    try {
      const answer = await fetch(`${at?.url}/v1/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${account.apiKey}`, "content-type": "application/json" },
        body: JSON.stringify({ model, prompt: "hello", max_tokens: maxTokens, stream }),
        signal: AbortSignal.any([client.signal, AbortSignal.timeout(limitMs)]),
      });
      id = answer.headers.get("x-stoker-request-id") ?? "";
      status = answer.status;
      if (status !== 200) return told("refused", 0, await answer.text());
      if (!stream) {
        const { usage } = (await answer.json()) as { usage: { completion_tokens: number } };
        return told("whole", usage.completion_tokens);
      }
      const text = await read(answer.body as ReadableStream<Uint8Array>, random.between(100, 2_000), () =>
        client.abort(),
      );
      const isWhole = text.trimEnd().endsWith("data: [DONE]");
      return told(isWhole ? "whole" : "cut", tokensIn(text), isWhole ? "" : text);
    } catch (error) {
      const why = error instanceof Cut ? error.message : String(error);
      // A complete answer that did not arrive whole delivered nothing.
      return told(id === "" ? "away" : "cut", error instanceof Cut ? tokensIn(error.text) : 0, why);
    }
  }

  async function keepAsking(name: number, next: (random: Seeded) => Request): Promise<void> {
    const random = seeded(seed * 100 + name, { isFixed: true });
    while (!over.signal.aborted) {
      const outcome = await ask(next(random), random);
      outcomes.push(outcome);
      // What is down refuses at once: its clients wait as clients do.
      const pauseMs = outcome.kind === "whole" ? random.between(20, 120) : outcome.kind === "away" ? 500 : 200;
      await pause(pauseMs, undefined, { signal: over.signal }).catch(() => {});
    }
  }

  const requestOf = (controlPlane: number, account: Account, stream: boolean) => (random: Seeded) => {
    const agent = random.between(1, 3);
    const maxTokens = random.between(1, 60);
    return { controlPlane, agent, model: world.modelAt(agent), account, maxTokens, stream };
  };

  async function callWebhooks(controlPlane: number): Promise<void> {
    const random = seeded(seed * 100 + 50 + controlPlane, { isFixed: true });
    const at = world.stack.controlPlanes[controlPlane - 1];
    while (!over.signal.aborted) {
      try {
        const answer = await fetch(`${at?.url}/v1/inference/${world.modelAt(random.between(1, 3))}`, {
          method: "POST",
          headers: { authorization: `Bearer ${world.admin.apiKey}`, "content-type": "application/json" },
          body: JSON.stringify({ input: "hello", max_new_tokens: 4, webhook: world.webhookUrl }),
          signal: AbortSignal.timeout(limitMs),
        });
        const body = (await answer.json()) as { request_id?: string };
        if (answer.status === 200 && body.request_id) accepted.push(body.request_id);
      } catch {
        // Nothing was accepted.
      }
      await pause(400, undefined, { signal: over.signal }).catch(() => {});
    }
  }

  const tiny = (controlPlane: number) => (random: Seeded) => ({
    controlPlane,
    agent: 0,
    model: random.pick(world.ownModels),
    account: world.admin,
    maxTokens: 2,
    stream: false,
  });
  const running = [1, 2].flatMap((at) => [
    keepAsking(at, requestOf(at, world.admin, true)),
    keepAsking(10 + at, requestOf(at, world.admin, true)),
    keepAsking(20 + at, requestOf(at, world.admin, false)),
    keepAsking(30 + at, requestOf(at, world.purse, at === 1)),
    keepAsking(40 + at, tiny(at)),
    callWebhooks(at),
  ]);

  return {
    outcomes,
    accepted,
    async answered(more, waitMs) {
      const whole = () => outcomes.filter(({ kind }) => kind === "whole").length;
      const from = whole();
      const untilMs = performance.now() + waitMs;
      while (whole() < from + more && performance.now() < untilMs) await pause(50);
      return whole() >= from + more;
    },
    leave(isLeaving) {
      how.isLeaving = isLeaving;
    },
    readSlowly(isSlow) {
      how.isSlow = isSlow;
    },
    async stop() {
      over.abort();
      await Promise.all(running);
    },
  };
}

class Cut extends Error {
  readonly text: string;
  constructor(text: string, message: string) {
    super(message);
    this.text = text;
  }
}

/** Output tokens that came, in whole frames: a frame that was cut in its middle is not billed. */
function tokensIn(text: string): number {
  const whole = text.slice(0, text.lastIndexOf("\n\n") + 1 || text.length);
  return whole
    .matchAll(/"text":"((?: tok)*)/g)
    .reduce((sum, [, tokens = ""]) => sum + tokens.length / " tok".length, 0);
}
