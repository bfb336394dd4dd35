// The two calls that give a host its certificate.
import * as grpc from "@grpc/grpc-js";
import type { Certificate__Output } from "../../proto/gen/stoker/fleet/v1/Certificate.ts";
import type { FleetClient } from "../../proto/gen/stoker/fleet/v1/Fleet.ts";
import { certificateRequest } from "./certificate-request.ts";
import { fetchAuthority, hashOf } from "./first-contact.ts";
import { fleetClient, type TlsParts } from "./wire.ts";

export interface GivenCertificate {
  /** X.509, PEM. */
  readonly certificatePem: string;
  readonly caPem: string;
}

/** The control plane refused the token, or it is invalid: the same token will not work later. */
export class JoinRefused extends Error {
  readonly code = "join_refused";
}

const limitMs = 15_000;
const refusals = new Set([grpc.status.UNAUTHENTICATED, grpc.status.PERMISSION_DENIED]);

/** Rejects with a sentence for the operator. `token`: `id.secret.caHash`. */
export async function enroll(
  enrolment: { readonly address: string; readonly token: string; readonly keyPem: string; readonly hostId: string },
  hostname: string,
  signal: AbortSignal,
): Promise<GivenCertificate> {
  const [id, secret, caHash, ...rest] = enrolment.token.split(".");
  if (!id || !secret || !caHash || rest.length > 0)
    throw new JoinRefused(
      "the join token is malformed: `stoker node token create` prints one of three parts with dots between",
    );
  const caPem = pem(await fetchAuthority(enrolment.address, caHash, signal));
  const csr = certificateRequest(enrolment.keyPem);
  const request = { joinToken: enrolment.token, csr, hostId: enrolment.hostId, hostname };
  const to = { address: enrolment.address, tls: { caPem, own: undefined } };
  const given = await call(to, signal, (client, options, done) => client.enroll(request, options, done));
  if (hashOf(given.ca) !== caHash) throw new Error("the control plane sent a certificate of another authority");
  return { certificatePem: pem(given.certificate), caPem };
}

/** Renews with the certificate in use. Rejects with a sentence. */
export async function renew(
  address: string,
  tls: TlsParts,
  keyPem: string,
  signal: AbortSignal,
): Promise<GivenCertificate> {
  const csr = certificateRequest(keyPem);
  const given = await call({ address, tls }, signal, (client, options, done) => client.renew({ csr }, options, done));
  return { certificatePem: pem(given.certificate), caPem: tls.caPem };
}

function call(
  to: { readonly address: string; readonly tls: TlsParts },
  signal: AbortSignal,
  ask: (
    client: FleetClient,
    options: grpc.CallOptions,
    done: (error: grpc.ServiceError | null, value?: Certificate__Output) => void,
  ) => grpc.ClientUnaryCall,
): Promise<Certificate__Output> {
  const client = fleetClient(to.address, to.tls);
  let asked: grpc.ClientUnaryCall | undefined;
  const stopped = () => asked?.cancel();
  return new Promise<Certificate__Output>((resolve, reject) => {
    signal.addEventListener("abort", stopped, { once: true });
    asked = ask(client, { deadline: Date.now() + limitMs }, (error, value) => {
      if (value) resolve(value);
      else {
        const why = error?.details || error?.message || "no certificate received";
        reject(
          error && refusals.has(error.code) ? new JoinRefused(why, { cause: error }) : new Error(why, { cause: error }),
        );
      }
    });
    if (signal.aborted) stopped();
  }).finally(() => {
    signal.removeEventListener("abort", stopped);
    client.close();
  });
}

function pem(der: Buffer): string {
  const lines = der.toString("base64").match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`;
}
