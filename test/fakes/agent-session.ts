// An agent without engines: a real gRPC client of Fleet.Session and a real data path that can be proven. It obeys its
// desired set when told to, or says what the test wants it to say.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import type { ProtoGrpcType } from "../../proto/gen/fleet.ts";
import type { AgentMessage } from "../../proto/gen/stoker/fleet/v1/AgentMessage.ts";
import type { ControlMessage__Output } from "../../proto/gen/stoker/fleet/v1/ControlMessage.ts";
import type { DesiredState__Output } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { InstanceReport } from "../../proto/gen/stoker/fleet/v1/InstanceReport.ts";
import type { Inventory as WireInventory } from "../../proto/gen/stoker/fleet/v1/Inventory.ts";
import type { Welcome__Output } from "../../proto/gen/stoker/fleet/v1/Welcome.ts";
import { verifyTicket } from "../../proto/ticket.ts";

export interface FakeAgentOptions {
  readonly address: string;
  readonly secret: string;
  readonly hostId: string;
  readonly gpus?: number;
  readonly highestEpoch?: bigint;
  /** Address of the data path to announce; a real one by default. */
  readonly advertise?: string;
}

export interface FakeAgent {
  readonly hostId: string;
  /** Of the newest connection. */
  readonly welcome: Welcome__Output | undefined;
  /** The last whole set received, over connections. */
  readonly desired: DesiredState__Output | undefined;
  readonly desiredCount: number;
  /** Every instance it was ever told to remove, once each. */
  readonly tombstonesSeen: readonly string[];
  readonly acknowledged: readonly string[];
  readonly provenTimes: number;
  /** Why the stream ended; undefined while it is open. */
  readonly ended: string | undefined;
  connect(): void;
  disconnect(): void;
  /** Becomes every instance's phase in its reports until said otherwise; also reports every 200 ms from then on. */
  obey(phase: InstanceReport["phase"], over?: Partial<InstanceReport>): void;
  /** Reports nothing by itself any more. */
  stopObeying(): void;
  /** `removed`: instances it says are gone. */
  report(instances: readonly InstanceReport[], removed?: readonly string[], openLeaseIds?: readonly string[]): void;
  send(message: AgentMessage): void;
  close(): Promise<void>;
}

const gib = 1024 ** 3;

export async function startFakeAgent(options: FakeAgentOptions): Promise<FakeAgent> {
  const Fleet = client();
  let channel: InstanceType<typeof Fleet> | undefined;
  let stream: grpc.ClientDuplexStream<AgentMessage, ControlMessage__Output> | undefined;
  let highestEpoch = options.highestEpoch ?? 0n;
  const keys: Buffer[] = [];
  const state = {
    welcome: undefined as Welcome__Output | undefined,
    desired: undefined as DesiredState__Output | undefined,
    desiredCount: 0,
    tombstonesSeen: new Set<string>(),
    acknowledged: [] as string[],
    provenTimes: 0,
    ended: undefined as string | undefined,
  };
  let obeyed: Partial<InstanceReport> | undefined;
  let sequence = 0;

  const dataPath = createServer((request, response) => {
    const ticket = verifyTicket(String(request.headers["x-stoker-ticket"] ?? ""), keys, Date.now());
    if (typeof ticket === "string") return void response.writeHead(401).end(JSON.stringify({ error: ticket }));
    if (request.url === "/prove") {
      state.provenTimes += 1;
      return void response.end(JSON.stringify({ host_id: options.hostId }));
    }
    if (request.url?.startsWith("/i/") && ticket.instanceId !== "") {
      return void response.end(JSON.stringify({ lines: [["1700000000.000000001", `a line of ${ticket.instanceId}`]] }));
    }
    response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => dataPath.listen(0, "127.0.0.1", resolve));
  const origin = options.advertise ?? `http://127.0.0.1:${(dataPath.address() as AddressInfo).port}`;

  const send = (message: AgentMessage) => void stream?.write(message);
  const report: FakeAgent["report"] = (instances, removed = [], openLeaseIds = []) =>
    send({
      body: "report",
      report: {
        nodeEpoch: state.welcome?.nodeEpoch ?? "0",
        generation: state.desired?.generation ?? "0",
        instances: [...instances],
        removed: [...removed],
        openLeaseIds: [...openLeaseIds],
      },
    });
  const reportObeyed = () => {
    if (!obeyed || !state.welcome) return;
    const over = obeyed;
    const instances = (state.desired?.instances ?? []).map((want) => ({
      instanceId: want.instanceId,
      deployId: want.deployId,
      generation: want.generation,
      contextLength: 2048,
      identity: `pid of ${want.instanceId}`,
      ...over,
    }));
    report(instances, state.desired?.tombstones ?? []);
  };
  const renew = () => {
    if (state.welcome) send({ body: "renew", renew: { nodeEpoch: state.welcome.nodeEpoch, sequence: ++sequence } });
  };
  const renewing = setInterval(renew, 100);
  const reporting = setInterval(reportObeyed, 200);

  function take(message: ControlMessage__Output): void {
    if (message.welcome) {
      state.welcome = message.welcome;
      keys.unshift(message.welcome.ticketKey as Buffer);
      if (BigInt(message.welcome.nodeEpoch) > highestEpoch) highestEpoch = BigInt(message.welcome.nodeEpoch);
    } else if (message.desired) {
      state.desired = message.desired;
      state.desiredCount += 1;
      for (const id of message.desired.tombstones) state.tombstonesSeen.add(id);
      reportObeyed();
    } else if (message.usageAck) {
      state.acknowledged.push(...message.usageAck.spoolIds);
    }
  }

  return {
    hostId: options.hostId,
    get welcome() {
      return state.welcome;
    },
    get desired() {
      return state.desired;
    },
    get desiredCount() {
      return state.desiredCount;
    },
    get tombstonesSeen() {
      return [...state.tombstonesSeen];
    },
    get acknowledged() {
      return state.acknowledged;
    },
    get provenTimes() {
      return state.provenTimes;
    },
    get ended() {
      return state.ended;
    },
    connect() {
      state.ended = undefined;
      state.welcome = undefined;
      channel = new Fleet(options.address, grpc.credentials.createInsecure());
      const metadata = new grpc.Metadata();
      metadata.set("authorization", `Bearer ${options.secret}`);
      const opened = channel.session(metadata);
      stream = opened;
      opened.on("data", take);
      opened.on("error", (error) => {
        if (stream === opened) state.ended = error.message;
      });
      opened.on("end", () => {
        if (stream === opened) state.ended ??= "ended";
        opened.end();
      });
      send({
        body: "hello",
        hello: {
          hostId: options.hostId,
          hostname: options.hostId,
          agentVersion: "fake",
          highestEpoch: highestEpoch.toString(),
          generation: state.desired?.generation ?? "0",
          advertise: origin,
          inventory: inventory(options.gpus ?? 4, options.hostId),
          bootId: "boot",
        },
      });
    },
    disconnect() {
      stream?.cancel();
      stream = undefined;
      channel?.close();
      state.welcome = undefined;
    },
    obey(phase, over = {}) {
      obeyed = { phase: phase ?? "", ...over };
      reportObeyed();
    },
    stopObeying() {
      obeyed = undefined;
    },
    report,
    send,
    async close() {
      clearInterval(renewing);
      clearInterval(reporting);
      stream?.cancel();
      channel?.close();
      await closeServer(dataPath);
    },
  };
}

function inventory(gpus: number, hostId: string): WireInventory {
  return {
    os: "linux",
    cpuModel: "fake",
    cpuCores: 4,
    memoryBytes: 8 * gib,
    diskTotalBytes: 100 * gib,
    diskFreeBytes: 50 * gib,
    gpus: Array.from({ length: gpus }, (_, index) => ({
      uuid: `${hostId}-gpu-${index}`,
      index,
      type: "other",
      name: "virtual",
      memoryBytes: gib,
      healthy: true,
    })),
    drivers: ["process", "external"],
  };
}

function client() {
  const definition = loadSync("fleet/v1/fleet.proto", {
    includeDirs: [join(import.meta.dirname, "../../proto")],
    enums: String,
    longs: String,
    bytes: Buffer,
    defaults: true,
    oneofs: true,
  });
  return (grpc.loadPackageDefinition(definition) as unknown as ProtoGrpcType).stoker.fleet.v1.Fleet;
}

function closeServer(server: Server): Promise<void> {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(() => resolve()));
}
