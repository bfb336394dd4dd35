// Sessions held by this replica. Of two sessions of one host the newer epoch stays.
import type { HostId } from "../../proto/ids.ts";
import { type FleetSession, openSession, type SessionDeps } from "./fleet-session.ts";
import { createHostPauses } from "./host-pauses.ts";
import type { FleetStream } from "./incoming.ts";

export interface Sessions {
  accept(stream: FleetStream, host: HostId): void;
  /** The host's desired set changed, or a session of it started elsewhere. */
  wake(host: HostId): void;
  readonly count: number;
  /** Ends all sessions, e.g. when this replica stops. */
  close(): void;
}

export function createSessions(deps: SessionDeps): Sessions {
  const byHost = new Map<HostId, FleetSession>();
  const pauses = createHostPauses(deps);
  let isClosed = false;

  async function hold(stream: FleetStream, host: HostId): Promise<void> {
    const session = await openSession(deps, stream, host, pauses);
    if (!session) return;
    if (isClosed) return session.end("the control plane stops");
    const other = byHost.get(session.host);
    if (other) {
      const [older, newer] = other.nodeEpoch <= session.nodeEpoch ? [other, session] : [session, other];
      older.replaced(newer.runId);
      byHost.set(session.host, newer);
    } else {
      byHost.set(session.host, session);
    }
    await session.ended;
    if (byHost.get(session.host) === session) byHost.delete(session.host);
  }

  return {
    accept(stream, host) {
      hold(stream, host).catch((error) => deps.log.error({ err: error }, "agent session failed"));
    },
    wake: (host) => byHost.get(host)?.wake(),
    get count() {
      return byHost.size;
    },
    close() {
      isClosed = true;
      for (const session of byHost.values()) session.end("the control plane stops");
    },
  };
}
