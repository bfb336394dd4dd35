// Keeps verifying a connected host's data path: with growing pauses until it succeeds, then periodically, and at once after
// a refused connection. Only verified hosts receive instances.
import type { Logger } from "pino";
import type { HostId } from "../../proto/ids.ts";
import type { Dial } from "./dial.ts";
import type { HostClocks } from "./host-clocks.ts";
import { proveDataPath } from "./prove-data-path.ts";
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
      while (!signal.aborted) {
        let wake = () => {};
        const woken = new Promise<void>((resolve) => {
          wake = resolve;
        });
        wakes.set(path.hostId, wake);
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
        await pause(pauseMs, woken, signal);
        // A newer session of the host may have replaced it.
        if (wakes.get(path.hostId) === wake) wakes.delete(path.hostId);
      }
    },
  };
}

function pause(ms: number, woken: Promise<void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
    void woken.then(end);
  });
}
