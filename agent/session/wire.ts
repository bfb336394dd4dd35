// The proto file as grpc-js wants it, TLS to a control plane, and desired states that were not read from a socket.
import { join } from "node:path";
import { createSecureContext } from "node:tls";
import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import type { ProtoGrpcType } from "../../proto/gen/fleet.ts";
import type { ControlMessage__Output } from "../../proto/gen/stoker/fleet/v1/ControlMessage.ts";
import type { DesiredState__Output } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { FleetClient } from "../../proto/gen/stoker/fleet/v1/Fleet.ts";

const definition = loadSync("fleet/v1/fleet.proto", {
  includeDirs: [join(import.meta.dirname, "../../proto")],
  enums: String,
  longs: String,
  bytes: Buffer,
  defaults: true,
  oneofs: true,
});
const Fleet = (grpc.loadPackageDefinition(definition) as unknown as ProtoGrpcType).stoker.fleet.v1.Fleet;
/** How each message goes over the wire. */
export const fleetService = Fleet.service;

const maxMessageBytes = 4 * 1024 * 1024;

export interface TlsParts {
  /** The installation's authority. */
  readonly caPem: string;
  /** Undefined before the host has one. */
  readonly own: { readonly certificatePem: string; readonly keyPem: string } | undefined;
}

/** What is asked for by name; who answers is known by the certificate's URI, as the address may be anything. */
export const serverName = "control-plane.stoker.internal";
const controlPlaneUri = "URI:spiffe://stoker/control-plane";

function credentials({ caPem, own }: TlsParts): grpc.ChannelCredentials {
  const context = createSecureContext({
    ca: caPem,
    minVersion: "TLSv1.3",
    ...(own ? { cert: own.certificatePem, key: own.keyPem } : {}),
  });
  return grpc.credentials.createFromSecureContext(context, {
    checkServerIdentity: (_, { subjectaltname = "" }) =>
      subjectaltname.split(", ").includes(controlPlaneUri)
        ? undefined
        : new Error("what answers there is not a control plane of this installation"),
  });
}

export function fleetClient(address: string, tls: TlsParts): FleetClient {
  return new Fleet(address, credentials(tls), {
    "grpc.ssl_target_name_override": serverName,
    "grpc.max_receive_message_length": maxMessageBytes,
    "grpc.max_send_message_length": maxMessageBytes,
    "grpc.keepalive_time_ms": 20_000,
    "grpc.keepalive_timeout_ms": 10_000,
    "grpc.keepalive_permit_without_calls": 1,
    // Each attempt has a channel of its own: our back-off is the only one.
    "grpc.enable_retries": 0,
    "grpc.use_local_subchannel_pool": 1,
  }) as FleetClient;
}

/** A desired state from a file, or one that an older agent kept: every field it lacks reads as its zero. Throws when it is none. */
export function completeDesired(value: unknown): DesiredState__Output {
  const { responseSerialize, responseDeserialize } = fleetService.Session;
  const bytes = responseSerialize({ body: "desired", desired: value } as never);
  const { desired } = responseDeserialize(bytes) as ControlMessage__Output;
  if (!desired) throw new Error("this is not a desired state");
  return desired;
}
