// Many agents in one process: the real client of the session over mutual TLS, each with its own key, certificate and dice;
// hosts without anything on them. What each does about its control plane is timed.

import { randomUUID } from "node:crypto";
import pino from "pino";
import { vi } from "vitest";
import { createBarredHosts } from "../../agent/session/barred-hosts.ts";
import { type ControlClock, createControlClock } from "../../agent/session/control-clock.ts";
import { enroll, makeKey } from "../../agent/session/enroll.ts";
import { Session } from "../../agent/session/session.ts";
import type { TlsParts } from "../../agent/session/wire.ts";
import type { HostId } from "../../proto/ids.ts";
import { emptySessionStore } from "./session-store.ts";

export interface TimedAgent {
  readonly isConnected: boolean;
  /** Monotonic ms of every attempt to begin a session, and of every welcome. */
  readonly triedMs: readonly number[];
  readonly welcomedMs: readonly number[];
  /** Answers to its renewals and Hellos so far. */
  readonly heard: number;
}

export interface AgentFleet {
  readonly agents: readonly TimedAgent[];
  stop(): Promise<void>;
}

/** How many join at a time: an authority signs one certificate after the other. */
const joinAtOnce = 8;

export async function startAgentFleet(size: number, address: string, token: string): Promise<AgentFleet> {
  const ending = new AbortController();
  const agents: TimedAgent[] = [];
  const running: Promise<void>[] = [];
  for (let first = 0; first < size; first += joinAtOnce) {
    const names = Array.from({ length: Math.min(joinAtOnce, size - first) }, (_, n) => `host-${first + n}`);
    const joined = await Promise.all(
      names.map(async (name) => {
        const keyPem = makeKey();
        const request = { address, token, keyPem, hostId: name };
        // A loaded machine's authority says "try again", as it does to agents.
        const { certificatePem, caPem } = await vi.waitFor(() => enroll(request, name, AbortSignal.timeout(60_000)), {
          timeout: 120_000,
          interval: 500,
        });
        return { name, tls: { caPem, own: { certificatePem, keyPem } } };
      }),
    );
    for (const { name, tls } of joined) {
      const { agent, run } = startAgent(name as HostId, address, tls);
      agents.push(agent);
      running.push(run(ending.signal));
    }
  }
  return {
    agents,
    async stop() {
      ending.abort();
      await Promise.all(running);
    },
  };
}

function startAgent(host: HostId, address: string, tls: TlsParts) {
  const monotonicMs = () => performance.now();
  const triedMs: number[] = [];
  const welcomedMs: number[] = [];
  let heard = 0;
  const store = emptySessionStore(host);
  const clock = createControlClock(monotonicMs, Date.now);
  const counting: ControlClock = {
    nowMs: clock.nowMs,
    addSample: (...answer) => {
      heard += 1;
      clock.addSample(...answer);
    },
    tolerate: clock.tolerate,
    ticketTimeMs: clock.ticketTimeMs,
    skewSeconds: 0,
    roundTripSeconds: 0,
  };
  const session = new Session({
    addresses: [address],
    identity: {
      tls: async () => {
        triedMs.push(monotonicMs());
        return tls;
      },
    },
    introduction: { hostname: host, agentVersion: "0.1.0", bootId: "boot", runId: randomUUID() },
    commands: { take: async () => {} },
    barred: createBarredHosts(),
    // Nothing is placed on these hosts.
    advertise: () => "http://127.0.0.1:1",
    store,
    spool: {
      pending: async () => [],
      acknowledge: async () => {},
      onPending: () => {},
      resend: async () => ({ records: 0, throughId: "0", dropped: 0, droppedThroughMs: 0 }),
      openLeaseIds: async () => [],
      depth: () => ({ records: 0, oldestAgeSeconds: 0, bytes: 0 }),
    },
    clock: counting,
    inventory: () => ({ os: "linux", cpuCores: 2 }),
    figures: () => ({}),
    report: () => ({ generation: "0", instances: [], removed: [], weights: [] }),
    // Told at every welcome.
    onFenced: (isFenced) => {
      if (!isFenced) welcomedMs.push(monotonicMs());
    },
    onDesired: () => {},
    monotonicMs,
    random: Math.random,
    log: pino({ level: "silent" }),
  });
  const agent: TimedAgent = {
    get isConnected() {
      return session.state().isConnected;
    },
    triedMs,
    welcomedMs,
    get heard() {
      return heard;
    },
  };
  return { agent, run: session.run };
}
