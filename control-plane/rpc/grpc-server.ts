// gRPC server of Fleet: transport, limits, admission. fleet-session.ts implements the session.
import * as grpc from "@grpc/grpc-js";
import { ServerCredentials } from "@grpc/grpc-js";
import type { Logger } from "pino";
import { fleetDefinition } from "../../proto/fleet-definition.ts";
import type { Certificate } from "../../proto/gen/stoker/fleet/v1/Certificate.ts";
import type { FleetHandlers } from "../../proto/gen/stoker/fleet/v1/Fleet.ts";
import type { HostId } from "../../proto/ids.ts";
import type { OwnCertificate } from "../fleet/authority.ts";
import type { EnrolmentRequest, GivenCertificate } from "../fleet/enrolment.ts";
import type { FleetStream } from "./incoming.ts";
import { asRpcError } from "./rpc-error.ts";

export interface GrpcServer {
  /** Returns the port it listens on. */
  listen(host: string, port: number): Promise<number>;
  /** Ends the streams; agents reconnect elsewhere or later. */
  close(): Promise<void>;
}

export interface GrpcDeps {
  readonly issueOwn: () => OwnCertificate;
  /** Throw to refuse; see fleet/errors.ts. */
  readonly enroll: (request: EnrolmentRequest) => Promise<GivenCertificate>;
  readonly renew: (certificate: Buffer | undefined, csr: Uint8Array) => Promise<GivenCertificate>;
  readonly admit: (certificate: Buffer | undefined) => Promise<HostId>;
  readonly onStream: (stream: FleetStream, host: HostId) => void;
  /** A connection without calls is closed after this time; agents always have one open. */
  readonly idleMs?: number;
  readonly log: Logger;
}

const maxMessageBytes = 4 * 1024 * 1024;

export function createGrpcServer(deps: GrpcDeps): GrpcServer {
  const server = new grpc.Server({
    "grpc.max_receive_message_length": maxMessageBytes,
    "grpc.max_send_message_length": maxMessageBytes,
    "grpc.keepalive_time_ms": 20_000,
    "grpc.keepalive_timeout_ms": 10_000,
    "grpc.keepalive_permit_without_calls": 1,
    "grpc.max_connection_idle_ms": deps.idleMs ?? 75_000,
  });
  const refused = (peer: string, what: string, error: unknown) => {
    const answer = asRpcError(error);
    deps.log.warn({ peer, err: error, why: answer.details }, what);
    return answer;
  };

  const session: FleetHandlers["Session"] = (stream) => {
    deps.admit(certificateOf(stream)).then(
      (host) => deps.onStream(stream, host),
      (error) => {
        stream.on("error", () => {});
        stream.emit("error", refused(stream.getPeer(), "agent session refused", error));
      },
    );
  };
  const enroll: FleetHandlers["Enroll"] = (call, done) => {
    const { joinToken, csr, hostId } = call.request;
    deps.enroll({ joinToken, csr, hostId, ip: addressOf(call.getPeer()) }).then(
      (given) => {
        deps.log.info({ host: given.hostId, peer: call.getPeer() }, "host joined");
        done(null, wireCertificate(given));
      },
      (error) => done(refused(call.getPeer(), "enrolment refused", error)),
    );
  };
  const renew: FleetHandlers["Renew"] = (call, done) => {
    deps.renew(certificateOf(call), call.request.csr).then(
      (given) => done(null, wireCertificate(given)),
      (error) => done(refused(call.getPeer(), "certificate renewal refused", error)),
    );
  };
  server.addService(serviceOf(grpc.loadPackageDefinition(fleetDefinition)), {
    Session: session,
    Enroll: enroll,
    Renew: renew,
  });
  let stopRenewing = () => {};

  return {
    async listen(host, port) {
      const { credentials, stop } = tlsCredentials(deps.issueOwn);
      stopRenewing = stop;
      return new Promise((resolve, reject) => {
        server.bindAsync(`${host}:${port}`, credentials, (error, bound) => (error ? reject(error) : resolve(bound)));
      });
    },
    async close() {
      stopRenewing();
      // Sessions do not end on their own, so do not wait for them.
      server.forceShutdown();
    },
  };
}

interface Peer {
  getAuthContext(): { sslPeerCertificate?: { readonly raw?: Buffer } };
}

/** The handshake proved that the peer holds its key; the certificate itself is not checked yet. */
const certificateOf = (call: unknown): Buffer | undefined => (call as Peer).getAuthContext().sslPeerCertificate?.raw;

const wireCertificate = ({ certificate, ca, hostId }: GivenCertificate): Certificate => ({ certificate, ca, hostId });

function serviceOf(loaded: grpc.GrpcObject): grpc.ServiceDefinition {
  const stoker = loaded["stoker"] as grpc.GrpcObject;
  const v1 = (stoker["fleet"] as grpc.GrpcObject)["v1"] as grpc.GrpcObject;
  return (v1["Fleet"] as grpc.ServiceClientConstructor).service;
}

/** Strips the port from a peer. */
const addressOf = (peer: string): string =>
  peer
    .replace(/^ipv[46]:/, "")
    .replace(/:\d+$/, "")
    .replace(/^\[(.*)\]$/, "$1");

interface TlsCredentials {
  readonly credentials: ServerCredentials;
  stop(): void;
}

const checkEveryMs = 3_600_000;
const renewBeforeMs = 10 * 86_400_000;

class TlsServerCredentials extends ServerCredentials {
  constructor(own: OwnCertificate) {
    super({ requestCert: true, rejectUnauthorized: false }, contextOf(own));
  }
  replace(own: OwnCertificate): void {
    this.updateSecureContextOptions(contextOf(own));
  }
  _equals(other: ServerCredentials): boolean {
    return this === other;
  }
}

/** A client certificate is optional, because an enrolling host has none. Keeps the own certificate fresh until stopped. */
function tlsCredentials(issueOwn: () => OwnCertificate): TlsCredentials {
  let own = issueOwn();
  const credentials = new TlsServerCredentials(own);
  const renew = () => {
    if (own.notAfterMs - Date.now() > renewBeforeMs) return;
    own = issueOwn();
    credentials.replace(own);
  };
  const timer = setInterval(renew, checkEveryMs).unref();
  return { credentials, stop: () => clearInterval(timer) };
}

const contextOf = (own: OwnCertificate) => ({
  cert: own.certChainPem,
  key: own.keyPem,
  ca: own.caPem,
  minVersion: "TLSv1.3" as const,
});
