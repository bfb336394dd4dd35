// Chooses the control plane: one at a time, the next one when it is unavailable. One that lost its database is left only once
// another has accepted this host: until then it is better than none.

import type { Logger } from "pino";
import { pause } from "../../proto/pause.ts";
import type { ConnectionEnd } from "./connection.ts";

export interface Notices {
  /** Called before the welcome is processed. */
  welcomed(): void;
  /** `isUnavailable`: this control plane cannot reach its database now. */
  databaseUnavailable(isUnavailable: boolean): void;
}

interface TurnsOptions {
  readonly addresses: readonly string[];
  readonly talk: (address: string, notices: Notices, signal: AbortSignal) => Promise<ConnectionEnd>;
  readonly onEnd: (end: ConnectionEnd) => void;
  /** First window of the delays, by the size of the fleet; undefined until a control plane has sent it. */
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
  isUnavailable: boolean;
  isSeeking: boolean;
  candidate: Conversation | undefined;
  /** Conversation with a control plane that has accepted this host. */
  next: Conversation | undefined;
}

export async function takeTurns(options: TurnsOptions, signal: AbortSignal): Promise<void> {
  const { addresses, random, log } = options;
  const besides = new WeakMap<Conversation, Beside>();

  function begin(address: string, before?: Conversation): Conversation {
    const stopping = new AbortController();
    const beside: Beside = { isUnavailable: false, isSeeking: false, candidate: undefined, next: undefined };
    const notices: Notices = {
      welcomed() {
        const left = before && besides.get(before);
        if (!left) return;
        left.next = conversation;
        before.stop();
      },
      databaseUnavailable(isUnavailable) {
        beside.isUnavailable = isUnavailable;
        if (isUnavailable && !beside.isSeeking && addresses.length > 1) void seek(conversation, beside);
      },
    };
    const ended = options.talk(address, notices, AbortSignal.any([signal, stopping.signal]));
    const conversation: Conversation = { address, ended, stop: () => stopping.abort() };
    besides.set(conversation, beside);
    return conversation;
  }

  /**
   * Asks the other control planes until one accepts this host or the current one can write again. Does not use the fleet's
   * spread: agents learn of it at their renewals, which are already spread out, and must move before their session expires.
   */
  async function seek(from: Conversation, beside: Beside): Promise<void> {
    beside.isSeeking = true;
    let isOver = false;
    const ended = from.ended.then(() => {
      isOver = true;
    });
    log.warn({ control: from.address }, "control plane lost its database; asking another one");
    const others = addresses.filter((address) => address !== from.address);
    for (let asked = 0; ; asked += 1) {
      const delayMs = reconnectDelayMs(Math.floor(asked / others.length), random());
      await Promise.race([pause(delayMs, signal), ended]);
      if (isOver || !beside.isUnavailable || signal.aborted) break;
      beside.candidate = begin(others[asked % others.length] ?? "", from);
      const end = await Promise.race([beside.candidate.ended, ended]);
      if (isOver || beside.next) break;
      log.debug(
        { control: beside.candidate.address, why: end?.detail },
        "this control plane does not accept the host either",
      );
    }
    beside.isSeeking = false;
  }

  // Agents are spread over the control planes, and each uses the next one when its own is unavailable.
  let turn = Math.floor(random() * addresses.length);
  let failures = 0;
  let lastReported = "";
  let conversation = begin(addresses[turn % addresses.length] ?? "");
  while (!signal.aborted) {
    const end = await conversation.ended;
    const { next, candidate } = besides.get(conversation) ?? {};
    if (next && !signal.aborted) {
      log.info({ from: conversation.address, to: next.address }, "another control plane accepted this host");
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
    // The delay grows once all of them were tried.
    const tried = Math.floor(failures / addresses.length);
    const delayMs = Math.round(reconnectDelayMs(tried, random(), options.spreadMs()));
    const facts = {
      control: conversation.address,
      reason: end.reason,
      why: end.detail,
      failures,
      retryInMs: delayMs,
    };
    // Warn once per problem: a control plane that is unavailable for a night must not fill the disk.
    const isNew = end.reason !== lastReported || end.wasWelcomed;
    const effect = end.reason === "fenced" ? "nothing is served or started here" : "running instances continue";
    log[isNew ? "warn" : "debug"](facts, `no session with the control plane; ${effect}`);
    lastReported = end.reason;
    await pause(delayMs, signal);
    if (!signal.aborted) conversation = begin(addresses[turn % addresses.length] ?? "");
  }
  await conversation.ended;
}

/** First window before a control plane has sent the size of the fleet. */
const defaultSpreadMs = 1_000;
const capMs = 30_000;
/**
 * Longest of the first windows, by the size of the fleet: a few hosts may reconnect soon, and must report their spooled records
 * within thirty seconds of the control plane's return. From forty hosts on it is the cap.
 */
const longestSpreads = 10;

/**
 * `failures` in a row, 0 after a welcomed session; `random` in [0, 1); `spreadMs`: first window, which the control plane sends
 * by the size of the fleet and which doubles with every failure; undefined: the size is unknown.
 */
export function reconnectDelayMs(failures: number, random: number, spreadMs?: number): number {
  const first = spreadMs ?? defaultSpreadMs;
  const longest = Math.min(capMs, spreadMs === undefined ? capMs : spreadMs * longestSpreads);
  return random * Math.min(longest, first * 2 ** Math.min(failures, 10));
}
