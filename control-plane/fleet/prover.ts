// Keeps verifying a connected host's data path: with growing pauses until it succeeds, then periodically, and at once after
// a refused connection. Only verified hosts receive instances.

import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Logger } from "pino";
import { type HostId, randomId } from "../../proto/ids.ts";
import { PeerRefused } from "../../proto/peer-tls.ts";
import { WakeablePause } from "../../proto/repeat.ts";
import { steadyTime } from "../../proto/steady-time.ts";
import { signTicket, type Ticket } from "../../proto/ticket.ts";
import type { DataPathAddress, Dial } from "./dial.ts";
import type { HostClocks } from "./host-clocks.ts";
import type { RoutingTable } from "./routing-table.ts";
import type { FleetStore, HostSession } from "./store.ts";

export interface Prover {
  /** Runs as long as the session does. */
  proveWhile(
    path: HostSession & { readonly origin: string; readonly ticketKey: Buffer },
    signal: AbortSignal,
  ): Promise<void>;
}

const firstRetryMs = 1_000;
const maxRetryMs = 15_000;
const renewMs = 30_000;

export function createProver(deps: {
  readonly store: Pick<FleetStore, "setCondition">;
  readonly dial: Dial;
  readonly clocks: Pick<HostClocks, "heard">;
  readonly routing: Pick<RoutingTable, "sawReport" | "onFailure">;
  readonly log: Logger;
}): Prover {
  const wakes = new Map<HostId, () => void>();
  deps.routing.onFailure((host) => wakes.get(host)?.());

  return {
    async proveWhile(path, signal) {
      let written: string | undefined;
      let failures = 0;
      const untilNext = new WakeablePause();
      wakes.set(path.hostId, untilNext.wake);
      while (!signal.aborted) {
        const proof = await proveDataPath(deps.dial, path, signal);
        if (signal.aborted) break;
        failures = proof.ok ? 0 : failures + 1;
        if (proof.ok) {
          deps.clocks.heard(path.hostId);
          deps.routing.sawReport(path.hostId);
        }
        const condition = proof.ok ? "" : proof.condition;
        if (condition !== written) {
          try {
            await deps.store.setCondition(path, { schedulable: proof.ok, condition });
            written = condition;
            deps.log[proof.ok ? "info" : "error"]({ host: path.hostId, condition }, "data path proof");
          } catch (error) {
            failures += 1;
            deps.log.warn({ err: error, host: path.hostId }, "a data path proof could not be written");
          }
        }
        const pauseMs = failures > 0 ? Math.min(firstRetryMs * 2 ** (failures - 1), maxRetryMs) : renewMs;
        await untilNext.wait(pauseMs, signal);
      }
      // A newer session of the host may have replaced it.
      if (wakes.get(path.hostId) === untilNext.wake) wakes.delete(path.hostId);
    },
  };
}

export interface DataPath extends DataPathAddress {
  readonly ticketKey: Buffer;
}

type Proof = { readonly ok: true } | { readonly ok: false; readonly condition: string };

const limitMs = 5_000;
const maxBytes = 4_096;

/** Never throws: returns the condition to show for the host. */
export async function proveDataPath(dial: Dial, path: DataPath, signal: AbortSignal): Promise<Proof> {
  const failed = (why: string): Proof => ({ ok: false, condition: `data_path_unreachable: ${path.origin} ${why}` });
  try {
    const ticket = signTicket(operatorTicket("prove", ""), path.ticketKey);
    const bounded = AbortSignal.any([signal, AbortSignal.timeout(limitMs)]);
    const { status, body } = await askDataPath(
      dial,
      path,
      { method: "POST", path: "/prove", ticket, maxBytes },
      bounded,
    );
    if (status !== 200) return failed(`answered ${status}`);
    const answer: unknown = JSON.parse(body);
    const id = typeof answer === "object" && answer !== null && "host_id" in answer ? answer.host_id : undefined;
    return id === path.hostId ? { ok: true } : failed(`another host answers there (${String(id).slice(0, 64)})`);
  } catch (error) {
    return failed(whyUnreachable(error, path.origin.startsWith("https:"), limitMs));
  }
}

/** Ticket for free operations: proof, logs and tunnels. It carries no hold and no permits. */
export function operatorTicket(purpose: string, instanceId: string, account = ""): Ticket {
  const nowMs = steadyTime.nowMs();
  return {
    requestId: randomId<"request">(24),
    attempt: 1,
    hostId: "",
    instanceId,
    deployId: "",
    admittedAtMs: nowMs,
    expiresAtMs: nowMs + 30_000,
    account,
    keyId: "",
    replicaId: "",
    model: purpose,
    leaseIds: [],
    hold: "0",
    permits: 0,
    inputTokensBound: 0,
    inputTokensEstimate: 0,
    maxTokens: 0,
    stream: false,
    usage: "drop",
    rates: ["0", "0", "0"],
    priceVersion: 0,
  };
}

interface DataPathQuestion {
  readonly method: "GET" | "POST";
  /** Including its query. */
  readonly path: string;
  readonly ticket: string;
  /** The responder is not trusted: a longer response is an error. */
  readonly maxBytes: number;
}

interface DataPathAnswer {
  readonly status: number;
  readonly body: string;
}

/** Rejects with the cause; whyUnreachable describes it. Redirects count as responses. */
export function askDataPath(
  dial: Dial,
  to: DataPathAddress,
  { method, path, ticket, maxBytes }: DataPathQuestion,
  signal: AbortSignal,
): Promise<DataPathAnswer> {
  return new Promise((resolve, reject) => {
    const url = new URL(path, to.origin);
    const ask = url.protocol === "https:" ? httpsRequest : httpRequest;
    const headers = { "x-stoker-ticket": ticket, ...(method === "POST" ? { "content-length": "0" } : {}) };
    const asking = ask(url, { ...dial(to), method, headers, agent: false, signal });
    asking.on("error", reject);
    // Unsolicited; no signal ends an upgraded request.
    asking.once("upgrade", ({ statusCode }, socket) => {
      socket.destroy();
      reject(new Error(`answered ${statusCode}`));
    });
    asking.once("response", (answer) => {
      const parts: Buffer[] = [];
      let length = 0;
      answer.on("data", (part: Buffer) => {
        parts.push(part);
        length += part.length;
        if (length > maxBytes) answer.destroy(new Error(`answered with more than ${maxBytes} bytes`));
      });
      answer.on("error", reject);
      answer.once("end", () =>
        resolve({ status: answer.statusCode ?? 0, body: Buffer.concat(parts, length).toString("utf8") }),
      );
    });
    asking.end();
  });
}

const otherInstallation =
  "has a certificate of another installation or an unknown one: another program listens there, or terminates TLS before the agent";

/** Keyed by error code. */
const sentences: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: "has an expired certificate: its agent renews it over its session; see its log",
  CERT_NOT_YET_VALID: "has a certificate that is not valid yet: compare the clocks of host and control plane",
  CERT_SIGNATURE_FAILURE: otherInstallation,
  DEPTH_ZERO_SELF_SIGNED_CERT: otherInstallation,
  SELF_SIGNED_CERT_IN_CHAIN: otherInstallation,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: otherInstallation,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: otherInstallation,
};

/** OpenSSL puts the cause in the text only. */
const protocolErrors: readonly (readonly [RegExp, string])[] = [
  [
    /wrong version number|packet length too long/,
    "does not use TLS, although its address requires it: another program listens there",
  ],
  [/alert handshake failure/, "has no certificate yet: its agent gets one when it joins; see its log"],
];

/** `isSecure`: over TLS. A peer that rejects the certificate closes the connection. */
function whyUnreachable(error: unknown, isSecure: boolean, limitMs: number): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof PeerRefused) return error.message;
  const cause = error.cause as
    | { readonly name?: string; readonly code?: string; readonly message?: string }
    | undefined;
  if (error.name === "TimeoutError" || cause?.name === "TimeoutError")
    return `did not respond within ${limitMs / 1000} s`;
  const { code = cause?.code } = error as NodeJS.ErrnoException;
  const known = sentences[code ?? ""] ?? protocolErrors.find(([text]) => text.test(error.message))?.[1];
  if (known !== undefined) return known;
  if (isSecure && code === "ECONNRESET")
    return "closed the connection (ECONNRESET): it may reject this control plane's certificate because its clock is wrong; see its agent's log";
  return code ?? cause?.message ?? error.message;
}
