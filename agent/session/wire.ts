// Loads the proto file for grpc-js, opens TLS to a control plane, and reads desired states from files.
import { createSecureContext } from "node:tls";
import * as grpc from "@grpc/grpc-js";
import { fleetDefinition } from "../../proto/fleet-definition.ts";
import type { ProtoGrpcType } from "../../proto/gen/fleet.ts";
import type { ControlMessage__Output } from "../../proto/gen/stoker/fleet/v1/ControlMessage.ts";
import type { DesiredState__Output } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { FleetClient } from "../../proto/gen/stoker/fleet/v1/Fleet.ts";

const Fleet = (grpc.loadPackageDefinition(fleetDefinition) as unknown as ProtoGrpcType).stoker.fleet.v1.Fleet;
export const fleetService = Fleet.service;

const maxMessageBytes = 4 * 1024 * 1024;

export interface TlsParts {
  readonly caPem: string;
  readonly own: { readonly certificatePem: string; readonly keyPem: string } | undefined;
}

/** Name for TLS. The URI in the certificate identifies the server, because its address may be anything. */
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
        : new Error("the server is not a control plane of this installation"),
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
    // A separate channel for each attempt: only our back-off applies.
    "grpc.enable_retries": 0,
    "grpc.use_local_subchannel_pool": 1,
  }) as FleetClient;
}

/** Reads a desired state from a file or an older agent: missing fields read as zero. Throws for anything else. */
export function completeDesired(value: unknown): DesiredState__Output {
  const { responseSerialize, responseDeserialize } = fleetService.Session;
  const bytes = responseSerialize({ body: "desired", desired: value } as never);
  const { desired } = responseDeserialize(bytes) as ControlMessage__Output;
  if (!desired) throw new Error("this is not a desired state");
  return desired;
}
