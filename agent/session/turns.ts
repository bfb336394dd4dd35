// Which control plane is talked to: one at a time, the next one when it is gone. One that lost its database is left only once
// another has taken this host: until then it is better than none.
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { ConnectionEnd } from "./connection.ts";
import { reconnectDelayMs } from "./reconnect.ts";

/** What a conversation tells while it lasts. */
export interface Told {
  /** Before anything of the welcome is acted upon. */
  welcomed(): void;
  /** Whether this control plane can write nothing down now. */
  databaseAway(isAway: boolean): void;
}

export interface TurnsOptions {
  readonly addresses: readonly string[];
  /** Never rejects. */
  readonly talk: (address: string, told: Told, signal: AbortSignal) => Promise<ConnectionEnd>;
  readonly onEnd: (end: ConnectionEnd) => void;
  /** The first window of the pauses, by the size of the fleet; undefined until a control plane told it. */
  readonly spreadMs: () => number | undefined;
  readonly random: () => number;
  readonly log: Logger;
}

interface Conversation {
  readonly address: string;
  readonly ended: Promise<ConnectionEnd>;
  stop(): void;
}

interface Beside {
  isAway: boolean;
  isSeeking: boolean;
  candidate: Conversation | undefined;
  /** Has taken this host. */
  next: Conversation | undefined;
}

/** Until aborted. */
export async function takeTurns(options: TurnsOptions, signal: AbortSignal): Promise<void> {
  const { addresses, random, log } = options;
  const besides = new WeakMap<Conversation, Beside>();

  function begin(address: string, before?: Conversation): Conversation {
    const stopping = new AbortController();
    const beside: Beside = { isAway: false, isSeeking: false, candidate: undefined, next: undefined };
    const told: Told = {
      welcomed() {
        const left = before && besides.get(before);
        if (!left) return;
        left.next = conversation;
        before.stop();
      },
      databaseAway(isAway) {
        beside.isAway = isAway;
        if (isAway && !beside.isSeeking && addresses.length > 1) void seek(conversation, beside);
      },
    };
    const ended = options.talk(address, told, AbortSignal.any([signal, stopping.signal]));
    const conversation: Conversation = { address, ended, stop: () => stopping.abort() };
    besides.set(conversation, beside);
    return conversation;
  }

  /**
   * Asks the others until one takes this host or the present one can write again. Without the fleet's spread: agents hear of
   * it at their renewals, which fall apart by themselves, and must have moved before their silence counts.
   */
  async function seek(from: Conversation, beside: Beside): Promise<void> {
    beside.isSeeking = true;
    let isOver = false;
    const ended = from.ended.then(() => {
      isOver = true;
    });
    log.warn({ control: from.address }, "this control plane lost its database: another one is looked for");
    const others = addresses.filter((address) => address !== from.address);
    for (let asked = 0; ; asked += 1) {
      const delayMs = reconnectDelayMs(Math.floor(asked / others.length), random());
      await Promise.race([wait(delayMs, undefined, { signal }).catch(() => {}), ended]);
      if (isOver || !beside.isAway || signal.aborted) break;
      beside.candidate = begin(others[asked % others.length] ?? "", from);
      const end = await Promise.race([beside.candidate.ended, ended]);
      if (isOver || beside.next) break;
      log.debug({ control: beside.candidate.address, why: end?.detail }, "this one does not take the host either");
    }
    beside.isSeeking = false;
  }

  // Agents spread over the control planes, and each takes the next one when its own is gone.
  let turn = Math.floor(random() * addresses.length);
  let failures = 0;
  let lastTold = "";
  let conversation = begin(addresses[turn % addresses.length] ?? "");
  while (!signal.aborted) {
    const end = await conversation.ended;
    const { next, candidate } = besides.get(conversation) ?? {};
    if (next && !signal.aborted) {
      log.info({ from: conversation.address, to: next.address }, "another control plane took this host");
      options.onEnd({ ...end, reason: "moved" });
      conversation = next;
      turn = addresses.indexOf(next.address);
      continue;
    }
    candidate?.stop();
    turn += 1;
    if (signal.aborted) break;
    options.onEnd(end);
    failures = end.wasWelcomed ? 0 : failures + 1;
    // The pause grows once all of them were tried.
    const tried = Math.floor(failures / addresses.length);
    const delayMs = Math.round(reconnectDelayMs(tried, random(), options.spreadMs()));
    const facts = {
      control: conversation.address,
      reason: end.reason,
      why: end.detail,
      failures,
      retryInMs: delayMs,
    };
    // Once per trouble: a control plane that stays away for a night must not fill the disk.
    const isNew = end.reason !== lastTold || end.wasWelcomed;
    const meanwhile = end.reason === "fenced" ? "nothing is served or started here" : "what runs here runs on";
    log[isNew ? "warn" : "debug"](facts, `no session with the control plane; ${meanwhile}`);
    lastTold = end.reason;
    await wait(delayMs, undefined, { signal }).catch(() => {});
    if (!signal.aborted) conversation = begin(addresses[turn % addresses.length] ?? "");
  }
  await conversation.ended;
}
