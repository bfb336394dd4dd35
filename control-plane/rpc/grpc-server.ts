// The gRPC server of Fleet.Session: transport, limits and who may come in. What is said inside is fleet-session.ts.
import { timingSafeEqual } from "node:crypto";
import { join } from "node:path";
import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import type { Logger } from "pino";
import type { FleetHandlers } from "../../proto/gen/stoker/fleet/v1/Fleet.ts";
import type { FleetStream } from "./fleet-session.ts";

export interface GrpcServer {
  /** The port it listens on. */
  listen(host: string, port: number): Promise<number>;
  /** Ends the streams; agents come back to whoever listens next. */
  close(): Promise<void>;
}

const root = join(import.meta.dirname, "../..");
const maxMessageBytes = 4 * 1024 * 1024;

export function createGrpcServer(deps: {
  readonly joinSecret: string;
  readonly onStream: (stream: FleetStream) => void;
  readonly log: Logger;
}): GrpcServer {
  const definition = loadSync("fleet/v1/fleet.proto", {
    includeDirs: [join(root, "proto")],
    enums: String,
    longs: String,
    bytes: Buffer,
    defaults: true,
    oneofs: true,
  });
  const server = new grpc.Server({
    "grpc.max_receive_message_length": maxMessageBytes,
    "grpc.max_send_message_length": maxMessageBytes,
    "grpc.keepalive_time_ms": 20_000,
    "grpc.keepalive_timeout_ms": 10_000,
    "grpc.keepalive_permit_without_calls": 1,
  });
  const expected = Buffer.from(`Bearer ${deps.joinSecret}`);

  const session: FleetHandlers["Session"] = (stream) => {
    const given = Buffer.from(String(stream.metadata.get("authorization")[0] ?? ""));
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) {
      deps.log.warn({ peer: stream.getPeer() }, "an agent came with a wrong join secret");
      const details = "the join secret is wrong: give the agent the control plane's own (its file is agent.secret)";
      stream.on("error", () => {});
      stream.emit("error", { code: grpc.status.UNAUTHENTICATED, details });
      return;
    }
    deps.onStream(stream);
  };
  server.addService(serviceOf(grpc.loadPackageDefinition(definition)), { Session: session });

  return {
    listen: (host, port) =>
      new Promise((resolve, reject) => {
        server.bindAsync(`${host}:${port}`, grpc.ServerCredentials.createInsecure(), (error, bound) =>
          error ? reject(error) : resolve(bound),
        );
      }),
    async close() {
      // Sessions never end by themselves: waiting for them would be waiting for ever.
      server.forceShutdown();
    },
  };
}

function serviceOf(loaded: grpc.GrpcObject): grpc.ServiceDefinition {
  const stoker = loaded["stoker"] as grpc.GrpcObject;
  const v1 = (stoker["fleet"] as grpc.GrpcObject)["v1"] as grpc.GrpcObject;
  return (v1["Fleet"] as grpc.ServiceClientConstructor).service;
}
