// The control plane's end of Fleet.Session without a control plane: a real gRPC server that says what a test wants.
import pino from "pino";
import { makeAuthority, openAuthority } from "../../control-plane/fleet/authority.ts";
import { NodeRefused, RunSuperseded } from "../../control-plane/fleet/errors.ts";
import { createGrpcServer, type GrpcServer } from "../../control-plane/rpc/grpc-server.ts";
import type { FleetStream } from "../../control-plane/rpc/incoming.ts";
import type { ControlMessage } from "../../proto/gen/stoker/fleet/v1/ControlMessage.ts";
import type { DesiredState } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { Hello__Output } from "../../proto/gen/stoker/fleet/v1/Hello.ts";
import type { HostReport__Output } from "../../proto/gen/stoker/fleet/v1/HostReport.ts";
import type { HostId } from "../../proto/ids.ts";
import { readUsageBatch, type SpooledRecord } from "../../proto/usage-record.ts";

const joinSecret = "secret-of-a-test";
const signing = openAuthority(makeAuthority(Date.now()), { nowMs: Date.now });

export interface FakeControlPlane {
  readonly address: string;
  /** Lets any host in. */
  readonly joinToken: string;
  /** Of every session, oldest first. */
  readonly hellos: readonly Hello__Output[];
  readonly reports: readonly HostReport__Output[];
  readonly usage: readonly SpooledRecord[];
  readonly renewals: number;
  readonly isConnected: boolean;
  /** Epoch and ticket key of the next welcome. */
  nodeEpoch: bigint;
  ticketKey: Buffer;
  /** Whether another agent has taken the place of those that come. */
  fences: boolean;
  /** What agents are told of the size of the fleet, with the next welcome. */
  reconnectSpreadMs: number;
  /** Whether usage is acknowledged from now on. */
  acknowledges: boolean;
  /** To the newest session, in its own epoch unless told otherwise. */
  want(desired: DesiredState): void;
  /** Ends the sessions; agents come back. */
  cut(): void;
  /** Nobody listens; `listen` again on the same port. */
  close(): Promise<void>;
  listen(): Promise<void>;
}

export async function startFakeControlPlane(): Promise<FakeControlPlane> {
  let server: GrpcServer | undefined;
  let port = 0;
  let stream: FleetStream | undefined;
  const streams = new Set<FleetStream>();
  const hellos: Hello__Output[] = [];
  const reports: HostReport__Output[] = [];
  const usage: SpooledRecord[] = [];
  let renewals = 0;

  const send = (to: FleetStream, message: ControlMessage) => void to.write(message);
  function onStream(opened: FleetStream): void {
    streams.add(opened);
    const gone = () => {
      streams.delete(opened);
      if (stream === opened) stream = undefined;
    };
    opened.on("error", gone).on("end", gone).on("close", gone).on("cancelled", gone);
    opened.on("data", (message) => {
      if (message.hello) {
        hellos.push(message.hello);
        stream = opened;
        send(opened, {
          body: "welcome",
          welcome: {
            nodeEpoch: String(plane.nodeEpoch),
            leaseTtlMs: 20_000,
            renewEveryMs: 200,
            reportEveryMs: 300,
            ticketKey: plane.ticketKey,
            controlTimeMs: Date.now(),
            reconnectSpreadMs: plane.reconnectSpreadMs,
          },
        });
      } else if (message.renew) {
        renewals += 1;
        send(opened, {
          body: "renewed",
          renewed: { sequence: message.renew.sequence, controlTimeMs: Date.now() },
        });
      } else if (message.report) reports.push(message.report);
      else if (message.usage) {
        const records = readUsageBatch(message.usage.records);
        usage.push(...records);
        const spoolIds = records.map((record) => String(record.spoolId));
        if (plane.acknowledges) send(opened, { body: "usageAck", usageAck: { spoolIds } });
      }
    });
  }

  const plane: FakeControlPlane = {
    get address() {
      return `127.0.0.1:${port}`;
    },
    joinToken: `test.${joinSecret}.${signing.hash}`,
    hellos,
    reports,
    usage,
    get renewals() {
      return renewals;
    },
    get isConnected() {
      return stream !== undefined;
    },
    nodeEpoch: 1n,
    ticketKey: Buffer.alloc(32, 1),
    acknowledges: true,
    reconnectSpreadMs: 0,
    fences: false,
    want(desired) {
      if (!stream) throw new Error("no agent is connected");
      const whole = { nodeEpoch: String(plane.nodeEpoch), instances: [], tombstones: [], ...desired };
      send(stream, { body: "desired", desired: whole });
    },
    cut() {
      for (const one of streams) one.end();
    },
    async close() {
      stream = undefined;
      await server?.close();
    },
    async listen() {
      server = createGrpcServer({
        issueOwn: signing.issueOwn,
        enroll: async ({ joinToken, csr, hostId }) => {
          const request = signing.readRequest(csr);
          if (!request || joinToken.split(".")[1] !== joinSecret) throw new NodeRefused("unknown join token");
          const host = hostId as HostId;
          return {
            certificate: signing.issueNode(request, host, signing.times()),
            ca: signing.certificate,
            hostId: host,
          };
        },
        renew: () => Promise.reject(new NodeRefused("nothing is renewed here")),
        admit: async (certificate) => {
          const identity = certificate && signing.identify(certificate);
          if (!identity?.ok) throw new NodeRefused("no valid certificate");
          if (plane.fences) throw new RunSuperseded(identity.hostId);
          return identity.hostId;
        },
        onStream,
        log: pino({ level: "silent" }),
      });
      port = await server.listen("127.0.0.1", port);
    },
  };
  await plane.listen();
  return plane;
}
