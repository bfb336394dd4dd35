// The two calls that give a host its certificate.

import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, sign } from "node:crypto";
import { connect, type DetailedPeerCertificate } from "node:tls";
import * as grpc from "@grpc/grpc-js";
import { Attributes, CertificationRequest, CertificationRequestInfo } from "@peculiar/asn1-csr";
import { AsnConvert } from "@peculiar/asn1-schema";
import { AlgorithmIdentifier, Name, SubjectPublicKeyInfo } from "@peculiar/asn1-x509";
import type { Certificate__Output } from "../../proto/gen/stoker/fleet/v1/Certificate.ts";
import type { FleetClient } from "../../proto/gen/stoker/fleet/v1/Fleet.ts";
import { fleetClient, serverName, type TlsParts } from "./wire.ts";

export interface GivenCertificate {
  readonly certificatePem: string;
  readonly caPem: string;
}

/** The control plane refused the token, or it is invalid: the same token will not work later. */
class JoinRefused extends Error {
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

const ecdsaWithSha256 = "1.2.840.10045.4.3.2";

/** P-256; PKCS#8, PEM. */
export function makeKey(): string {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return privateKey.export({ type: "pkcs8", format: "pem" }).toString();
}

/** PKCS#10, DER, signed by the key. It contains no name: the certificate states the host. */
export function certificateRequest(keyPem: string): Buffer {
  const key = createPrivateKey(keyPem);
  const info = new CertificationRequestInfo({
    subject: new Name(),
    subjectPKInfo: AsnConvert.parse(createPublicKey(key).export({ type: "spki", format: "der" }), SubjectPublicKeyInfo),
    attributes: new Attributes(),
  });
  const request = new CertificationRequest({
    certificationRequestInfo: info,
    signatureAlgorithm: new AlgorithmIdentifier({ algorithm: ecdsaWithSha256 }),
    signature: Uint8Array.from(sign("sha256", Buffer.from(AsnConvert.serialize(info)), key)).buffer,
  });
  return Buffer.from(AsnConvert.serialize(request));
}

class OtherAuthority extends Error {
  readonly code = "join_refused";
}

const contactLimitMs = 10_000;
const maxChain = 8;

/**
 * A host without a certificate knows only the hash of its authority, from its join token. Returns that authority from the chain
 * of the server, DER. Rejects with a sentence for a server of another installation. Sends nothing secret.
 */
function fetchAuthority(address: string, caHash: string, signal: AbortSignal): Promise<Buffer> {
  const split = address.lastIndexOf(":");
  const host = address.slice(0, split).replace(/^\[|\]$/g, "");
  return new Promise((resolve, reject) => {
    // The hash verifies the chain; no other check can replace it.
    const socket = connect({
      host,
      port: Number(address.slice(split + 1)),
      servername: serverName,
      rejectUnauthorized: false,
      minVersion: "TLSv1.3",
      ALPNProtocols: ["h2"],
    });
    const end = (settle: () => void) => {
      clearTimeout(timer);
      signal.removeEventListener("abort", stopped);
      socket.destroy();
      settle();
    };
    const stopped = () => end(() => reject(new Error("the agent stops")));
    const timer = setTimeout(
      () => end(() => reject(new Error(`no TLS answer within ${contactLimitMs / 1000} s`))),
      contactLimitMs,
    );
    signal.addEventListener("abort", stopped, { once: true });
    socket.on("error", (error) => end(() => reject(error)));
    socket.once("secureConnect", () => {
      const found = chainOf(socket.getPeerCertificate(true)).find((der) => hashOf(der) === caHash);
      end(() =>
        found
          ? resolve(found)
          : reject(
              new OtherAuthority(
                `the control plane at ${address} is not the one that the join token is of: its authority has another hash. ` +
                  "Check the address, or make a token there",
              ),
            ),
      );
    });
  });
}

const hashOf = (der: Buffer): string => createHash("sha256").update(der).digest("base64url");

function chainOf(leaf: DetailedPeerCertificate): Buffer[] {
  const chain: Buffer[] = [];
  let one: DetailedPeerCertificate | undefined = leaf;
  // A self-signed certificate is its own issuer.
  while (one?.raw && chain.length < maxChain && !chain.some((der) => der.equals(one?.raw as Buffer))) {
    chain.push(one.raw);
    one = one.issuerCertificate;
  }
  return chain;
}
