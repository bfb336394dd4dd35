// An agent without engines: a real gRPC client of Fleet.Session and a real data path that can be proven. It obeys its
// desired set when told to, or says what the test wants it to say.
import { randomUUID } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type * as grpc from "@grpc/grpc-js";
import { enroll, makeKey } from "../../agent/session/enroll.ts";
import { fleetClient, type TlsParts } from "../../agent/session/wire.ts";
import type { AgentMessage } from "../../proto/gen/stoker/fleet/v1/AgentMessage.ts";
import type { ControlMessage__Output } from "../../proto/gen/stoker/fleet/v1/ControlMessage.ts";
import type { DesiredState__Output } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { FleetClient } from "../../proto/gen/stoker/fleet/v1/Fleet.ts";
import type { InstanceReport } from "../../proto/gen/stoker/fleet/v1/InstanceReport.ts";
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import type { Inventory as WireInventory } from "../../proto/gen/stoker/fleet/v1/Inventory.ts";
import type { Welcome__Output } from "../../proto/gen/stoker/fleet/v1/Welcome.ts";
import { verifyTicket } from "../../proto/ticket.ts";

export interface FakeAgentOptions {
  readonly address: string;
  /** Join token. */
  readonly token: string;
  /** Two of one name and token are clones: they have one key and certificate. */
  readonly hostId: string;
  readonly gpus?: number;
  /** H100s behind a driver instead of shares of memory. */
  readonly hasDriver?: boolean;
  /** It puts instances to sleep. */
  readonly sleeps?: boolean;
  /** GiB of each slice of one more GPU, which is split by MIG. */
  readonly slices?: readonly number[];
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
  /** Hosts that it was last told to refuse. */
  readonly barred: readonly string[];
  readonly provenTimes: number;
  /** Why the stream ended; undefined while it is open. */
  readonly ended: string | undefined;
  /** Joins at its first time. Its process is the same until `restart`. */
  connect(): void;
  /** From now on it is another process of the same host. */
  restart(): void;
  disconnect(): void;
  /** Becomes every instance's phase in its reports until said otherwise; also reports every 200 ms from then on. */
  obey(phase: InstanceReport["phase"], over?: Partial<InstanceReport>): void;
  /** The same, of each instance what it says. */
  obeyEach(answer: (want: InstanceSpec__Output) => Partial<InstanceReport>): void;
  /** Reports nothing by itself any more. */
  stopObeying(): void;
  /** `removed`: instances it says are gone. */
  report(instances: readonly InstanceReport[], removed?: readonly string[], openLeaseIds?: readonly string[]): void;
  send(message: AgentMessage): void;
  close(): Promise<void>;
}

const gib = 1024 ** 3;

export async function startFakeAgent(options: FakeAgentOptions): Promise<FakeAgent> {
  let channel: FleetClient | undefined;
  let attempt = 0;
  let runId: string = randomUUID();
  let stream: grpc.ClientDuplexStream<AgentMessage, ControlMessage__Output> | undefined;
  let highestEpoch = options.highestEpoch ?? 0n;
  const keys: Buffer[] = [];
  const state = {
    welcome: undefined as Welcome__Output | undefined,
    desired: undefined as DesiredState__Output | undefined,
    desiredCount: 0,
    tombstonesSeen: new Set<string>(),
    acknowledged: [] as string[],
    barred: [] as readonly string[],
    provenTimes: 0,
    ended: undefined as string | undefined,
  };
  let obeyed: ((want: InstanceSpec__Output) => Partial<InstanceReport>) | undefined;
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
      ...over(want),
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
      state.barred = message.welcome.barredHosts;
      keys.unshift(message.welcome.ticketKey as Buffer);
      if (BigInt(message.welcome.nodeEpoch) > highestEpoch) highestEpoch = BigInt(message.welcome.nodeEpoch);
    } else if (message.renewed) {
      state.barred = message.renewed.barredHosts;
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
    get barred() {
      return state.barred;
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
      const wanted = ++attempt;
      identityOf(options).then(
        (tls) => {
          if (wanted === attempt) open(tls);
        },
        (error: Error) => {
          state.ended = error.message;
        },
      );
    },
    restart() {
      runId = randomUUID();
    },
    disconnect() {
      attempt += 1;
      stream?.cancel();
      stream = undefined;
      channel?.close();
      state.welcome = undefined;
    },
    obey(phase, over = {}) {
      obeyed = () => ({ phase: phase ?? "", ...over });
      reportObeyed();
    },
    obeyEach(answer) {
      obeyed = answer;
      reportObeyed();
    },
    stopObeying() {
      obeyed = undefined;
    },
    report,
    send,
    async close() {
      attempt += 1;
      clearInterval(renewing);
      clearInterval(reporting);
      stream?.cancel();
      channel?.close();
      await closeServer(dataPath);
    },
  };

  function open(tls: TlsParts): void {
    channel = fleetClient(options.address, tls);
    const opened = channel.session();
    stream = opened;
    opened.on("data", take);
    opened.on("error", (error) => {
      // A message that was on its way when the session ended: the reason is another error.
      if (stream === opened && error.message !== "write after end") state.ended = error.message;
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
        agentVersion: "0.1.0",
        highestEpoch: highestEpoch.toString(),
        generation: state.desired?.generation ?? "0",
        advertise: origin,
        inventory: inventory(options),
        bootId: "boot",
        runId,
      },
    });
  }
}

const identities = new Map<string, Promise<TlsParts>>();

/** One key and certificate per host and installation. */
export function identityOf({
  address,
  token,
  hostId,
}: Pick<FakeAgentOptions, "address" | "token" | "hostId">): Promise<TlsParts> {
  const name = `${token} ${hostId}`;
  const known = identities.get(name);
  if (known) return known;
  const keyPem = makeKey();
  const joined = enroll({ address, token, keyPem, hostId }, hostId, AbortSignal.timeout(10_000)).then(
    ({ certificatePem, caPem }) => ({ caPem, own: { certificatePem, keyPem } }),
  );
  identities.set(name, joined);
  joined.catch(() => identities.delete(name));
  return joined;
}

function inventory({
  gpus = 4,
  hostId,
  hasDriver = false,
  sleeps = false,
  slices = [],
}: FakeAgentOptions): WireInventory {
  return {
    os: "linux",
    cpuModel: "fake",
    cpuCores: 4,
    memoryBytes: hasDriver ? 256 * gib : 8 * gib,
    nvidiaDriverVersion: hasDriver ? "580" : "",
    hasNvidiaRuntime: hasDriver,
    diskTotalBytes: 100 * gib,
    diskFreeBytes: 50 * gib,
    gpus: [
      ...Array.from({ length: gpus }, (_, index) => ({
        uuid: `${hostId}-gpu-${index}`,
        index,
        type: hasDriver ? "H100-80GB" : "other",
        name: hasDriver ? "H100" : "virtual",
        memoryBytes: hasDriver ? 80 * gib : gib,
        healthy: true,
      })),
      ...slices.map((size, n) => ({
        uuid: `MIG-${hostId}-${n}`,
        index: gpus,
        type: "other",
        name: `H100 MIG ${size}gb`,
        memoryBytes: size * gib,
        healthy: true,
        migProfile: `1g.${size}gb`,
        parentUuid: `${hostId}-gpu-${gpus}`,
      })),
    ],
    drivers: ["process", "external"],
    sleeps,
  };
}

function closeServer(server: Server): Promise<void> {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(() => resolve()));
}
