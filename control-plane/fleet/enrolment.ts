// How a host comes in and stays: a join token becomes a certificate, the certificate is renewed and says at every session
// who the host is, the operator may take it back.
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { type HostId, randomId } from "../../proto/ids.ts";
import type { Authority } from "./authority.ts";
import { NodeBanned, NodeNotBehind, NodeNotFound, NodeRefused, NodeRevoked } from "./errors.ts";
import { hostNamed } from "./find-host.ts";
import type { AdoptedHost, EnrolmentStore, EnrolmentVerdict, FleetAct, FleetStore, GrantOf } from "./store.ts";

export interface EnrolmentRequest {
  readonly joinToken: string;
  /** PKCS#10, DER. */
  readonly csr: Uint8Array;
  readonly hostId: string;
  /** Where it comes from, for the audit. */
  readonly ip: string;
}

export interface GivenCertificate {
  readonly certificate: Buffer;
  readonly ca: Buffer;
  readonly hostId: HostId;
}

export interface JoinToken {
  /** `id.secret.caHash`; shown once. */
  readonly token: string;
  readonly id: string;
  readonly expiresAtMs: number;
}

export interface Enrolment {
  /** Throws NodeRefused, NodeBanned. */
  enroll(request: EnrolmentRequest): Promise<GivenCertificate>;
  /** With the certificate in use. Throws NodeRefused, NodeBanned. */
  renew(certificate: Buffer | undefined, csr: Uint8Array): Promise<GivenCertificate>;
  /** Whose session it is. Throws NodeRefused, NodeBanned. */
  admit(certificate: Buffer | undefined): Promise<HostId>;
  createToken(
    wish: { readonly pool: string; readonly ttlMs: number; readonly forHost: string | undefined },
    act: FleetAct,
  ): Promise<JoinToken>;
  /** By id or name, as wherever an operator names a host. Throws NodeNotFound, NodeNameShared, NodeRevoked. */
  revoke(host: string, act: FleetAct): Promise<void>;
  /** What runs there and is of a known deployment is known again. Throws NodeNotFound, NodeNameShared, NodeNotBehind. */
  adopt(host: string, act: FleetAct): Promise<AdoptedHost & { readonly hostId: HostId }>;
}

/** Of the token that agents of this machine's own `up` come in with; its secret lies in the secrets folder. */
export const standingTokenId = "installation";

export function createEnrolment(deps: {
  readonly store: EnrolmentStore;
  readonly fleet: Pick<FleetStore, "adopt" | "hosts">;
  readonly authority: Authority;
  /** For those who may read the secrets folder. */
  readonly standingSecret: string;
  readonly grantOf: GrantOf;
  readonly nowMs: () => number;
}): Enrolment {
  const { store, authority } = deps;

  const read = (csr: Uint8Array) => {
    const request = authority.readRequest(csr);
    if (!request) throw new NodeRefused("the certificate request is not one of a P-256 key signed by that key");
    return request;
  };
  const hostOf = (certificate: Buffer | undefined) => {
    if (!certificate)
      throw new NodeRefused(
        "no valid client certificate came (none, expired, or of another installation): join with a token",
      );
    const identity = authority.identify(certificate);
    if (!identity.ok) throw new NodeRefused(identity.why);
    return identity;
  };
  const named = async (idOrName: string) => hostNamed(await deps.fleet.hosts(), idOrName);
  const demandKnown = async (host: HostId) => {
    if (!(await deps.fleet.hosts()).some((one) => one.id === host)) throw new NodeNotFound(host);
  };
  /** A host that joined and opened no session yet is one, too. */
  const demandJoined = async (host: HostId) => {
    if (!(await store.identity(host))) await demandKnown(host);
  };

  return {
    async enroll({ joinToken, csr, hostId, ip }) {
      const [id = "", secret = ""] = joinToken.trim().split(".");
      const isStanding = id === standingTokenId;
      if (isStanding && !isEqual(secret, deps.standingSecret)) throw refusal("unknown_token", hostId);
      if (!/^[0-9A-Za-z][\w-]{0,62}$/.test(hostId)) throw new NodeRefused("the host's name is missing or malformed");
      const request = read(csr);
      const host = hostId as HostId;
      const times = authority.times();
      const verdict = await store.enroll({
        hostId: host,
        keyHash: request.keyHash,
        serial: times.serial,
        notAfter: new Date(times.notAfterMs),
        ip,
        token: isStanding ? undefined : { id, secretHash: hashOf(secret) },
      });
      if (verdict !== "enrolled") throw refusal(verdict, host);
      const certificate = authority.issueNode(request, host, times);
      return { certificate, ca: authority.certificate, hostId: host };
    },

    async renew(certificate, csr) {
      const { hostId, keyHash } = hostOf(certificate);
      const request = read(csr);
      if (!request.keyHash.equals(keyHash))
        throw new NodeRefused("a certificate is renewed for the key it is of: join again with a token for a new key");
      const times = authority.times();
      const written = { keyHash, serial: times.serial, notAfter: new Date(times.notAfterMs) };
      if (!(await store.renewed(hostId, written))) throw new NodeBanned(hostId);
      return {
        certificate: authority.issueNode(request, hostId, times),
        ca: authority.certificate,
        hostId,
      };
    },

    async admit(certificate) {
      const { hostId, keyHash } = hostOf(certificate);
      // Undefined: enrolled after the backup that this database was restored from. The signature stands.
      const known = await store.identity(hostId);
      if (known?.isRevoked) throw new NodeBanned(hostId);
      if (known && !known.keyHash.equals(keyHash))
        throw new NodeRefused(
          `host ${hostId} was joined again with another key since: this certificate is no longer its`,
        );
      return hostId;
    },

    async createToken({ pool, ttlMs, forHost: wanted }, act) {
      const forHost = wanted === undefined ? undefined : await named(wanted);
      if (forHost !== undefined) await demandJoined(forHost);
      const id = randomId<"token">(12);
      const secret = randomBytes(32).toString("base64url");
      const expiresAtMs = deps.nowMs() + ttlMs;
      await store.addToken({ id, secretHash: hashOf(secret), pool, forHost, expiresAt: new Date(expiresAtMs) }, act);
      return { token: `${id}.${secret}.${authority.hash}`, id, expiresAtMs };
    },

    async revoke(idOrName, act) {
      const host = await named(idOrName);
      await demandJoined(host);
      if (!(await store.revoke(host, act))) throw new NodeRevoked(host);
    },

    async adopt(idOrName, act) {
      const host = await named(idOrName);
      await demandKnown(host);
      const adopted = await deps.fleet.adopt(host, act, deps.grantOf);
      if (!adopted) throw new NodeNotBehind(host);
      return { ...adopted, hostId: host };
    },
  };
}

/** What agents of those who may read the secrets folder join with, as often as they like. */
export const standingToken = (secret: string, authority: Pick<Authority, "hash">): string =>
  `${standingTokenId}.${secret}.${authority.hash}`;

function refusal(verdict: Exclude<EnrolmentVerdict, "enrolled">, host: string): Error {
  const create = "make a new one with `stoker node token create`";
  switch (verdict) {
    case "unknown_token":
      return new NodeRefused(`the join token is unknown here: ${create}`);
    case "used_token":
      return new NodeRefused(`the join token was used by another host: each is for one; ${create}`);
    case "expired_token":
      return new NodeRefused(`the join token has expired: ${create}`);
    case "other_host":
      return new NodeRefused(`the join token is for another host than ${host}: ${create}`);
    case "host_taken":
      return new NodeRefused(
        `host ${host} was joined with another key: if it lost its key, use a token made by ` +
          `\`stoker node token create --node ${host}\`; if its disk was copied, remove the agent's folder on the copy`,
      );
    case "revoked":
      return new NodeBanned(host);
  }
}

const hashOf = (secret: string): Buffer => createHash("sha256").update(secret).digest();
const isEqual = (given: string, expected: string): boolean => timingSafeEqual(hashOf(given), hashOf(expected));
