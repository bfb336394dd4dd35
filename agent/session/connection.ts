// One stream of Fleet.Session from Hello to its end: sends renewals and reports on time and passes on received messages.
// Ends when either side ends it, or when nothing was received for the duration of a lease.
import * as grpc from "@grpc/grpc-js";
import type { AgentMessage } from "../../proto/gen/stoker/fleet/v1/AgentMessage.ts";
import type { ControlMessage__Output } from "../../proto/gen/stoker/fleet/v1/ControlMessage.ts";
import type { Hello } from "../../proto/gen/stoker/fleet/v1/Hello.ts";
import type { Welcome__Output } from "../../proto/gen/stoker/fleet/v1/Welcome.ts";
import { fleetClient, type TlsParts } from "./wire.ts";

interface ConnectionOptions {
  readonly address: string;
  readonly tls: TlsParts;
  readonly hello: Hello;
  readonly onWelcome: (welcome: Welcome__Output, askedMs: number, send: (message: AgentMessage) => void) => void;
  readonly onMessage: (message: ControlMessage__Output) => void;
  readonly monotonicMs: () => number;
}

export type ConnectionEnd = {
  /** Low cardinality, for a metric. */
  readonly reason: "refused" | "fenced" | "unreachable" | "timeout" | "ended" | "silent" | "stopped" | "moved";
  readonly detail: string;
  readonly wasWelcomed: boolean;
};

/** Decisions of the control plane about this agent; any other reason ends only the stream. */
const endings: Readonly<Partial<Record<grpc.status, ConnectionEnd["reason"]>>> = {
  [grpc.status.UNAUTHENTICATED]: "refused",
  // Revoked, or another agent with this identity connected later: this agent must stop serving.
  [grpc.status.PERMISSION_DENIED]: "fenced",
  [grpc.status.ALREADY_EXISTS]: "fenced",
};

const connectLimitMs = 10_000;
const welcomeLimitMs = 10_000;

export async function connect(options: ConnectionOptions, signal: AbortSignal): Promise<ConnectionEnd> {
  const client = fleetClient(options.address, options.tls);
  try {
    if (await settled(client, signal)) return await talk(client, options, signal);
    if (signal.aborted) return { reason: "stopped", detail: "the agent stops", wasWelcomed: false };
    return { reason: "unreachable", detail: await whyUnreachable(client), wasWelcomed: false };
  } finally {
    client.close();
  }
}

/**
 * Resolves once connected. The first failure ends the attempt: otherwise the channel would retry with its own back-off, the
 * same in all agents, and our random delays between attempts would have no effect.
 */
function settled(client: grpc.Client, signal: AbortSignal): Promise<boolean> {
  const channel = client.getChannel();
  const deadlineMs = Date.now() + connectLimitMs;
  return new Promise((resolve) => {
    const look = (error?: Error) => {
      const state = channel.getConnectivityState(true);
      const isOver = signal.aborted || error !== undefined || state === grpc.connectivityState.TRANSIENT_FAILURE;
      if (!isOver && state !== grpc.connectivityState.READY)
        return channel.watchConnectivityState(state, deadlineMs, look);
      signal.removeEventListener("abort", stopped);
      resolve(!isOver);
    };
    const stopped = () => look();
    signal.addEventListener("abort", stopped, { once: true });
    look();
  });
}

/** Makes a call over a channel without a connection: it fails at once, with the reason that the channel does not report. */
function whyUnreachable(client: ReturnType<typeof fleetClient>): Promise<string> {
  return new Promise((resolve) => {
    const stream = client.session(new grpc.Metadata(), { deadline: Date.now() + 100 });
    stream.on("data", () => {});
    stream.on("error", (error: grpc.ServiceError) => resolve(error.details || error.message));
    stream.on("end", () => resolve("it closed the connection"));
  });
}

function talk(
  client: ReturnType<typeof fleetClient>,
  options: ConnectionOptions,
  signal: AbortSignal,
): Promise<ConnectionEnd> {
  const stream = client.session();
  const askedMs = options.monotonicMs();
  return new Promise((resolve) => {
    let welcome: Welcome__Output | undefined;
    let silence: NodeJS.Timeout | undefined;
    const end = (reason: ConnectionEnd["reason"], detail: string) => {
      clearTimeout(silence);
      signal.removeEventListener("abort", stopped);
      stream.removeAllListeners("data");
      stream.end();
      stream.cancel();
      resolve({ reason, detail, wasWelcomed: welcome !== undefined });
    };
    const stopped = () => end("stopped", "the agent stops");
    const expectWithin = (limitMs: number, reason: "timeout" | "silent") => {
      clearTimeout(silence);
      silence = setTimeout(() => end(reason, `nothing came for ${limitMs} ms`), limitMs);
    };
    stream.on("data", (message: ControlMessage__Output) => {
      if (message.welcome && !welcome) {
        welcome = message.welcome;
        options.onWelcome(welcome, askedMs, (sent) => void stream.write(sent));
      } else if (welcome) options.onMessage(message);
      expectWithin(welcome?.leaseTtlMs || 20_000, "silent");
    });
    // A cancelled stream still emits its error, and no other listener is left.
    stream.on("error", (error: grpc.ServiceError) =>
      end(endings[error.code] ?? "ended", error.details || error.message),
    );
    stream.on("end", () => end(welcome ? "ended" : "refused", "the control plane ended the session"));
    signal.addEventListener("abort", stopped, { once: true });
    expectWithin(welcomeLimitMs, "timeout");
    if (signal.aborted) stopped();
    else stream.write({ body: "hello", hello: options.hello });
  });
}
