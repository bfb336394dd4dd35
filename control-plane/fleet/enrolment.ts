// Identity of hosts: a join token is exchanged for a certificate, which is renewed, authenticates each session, and can be
// revoked by the operator.

import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { type HostId, randomId } from "../../proto/ids.ts";
import type { Act } from "../act.ts";
import type { Authority } from "./authority.ts";
import { NodeBanned, NodeRefused, nodeNotBehind, nodeNotFound, nodeRevoked } from "./errors.ts";
import { hostNamed } from "./find-host.ts";
import type {
  AdoptedHost,
  EnrolledHost,
  EnrolmentStore,
  EnrolmentVerdict,
  FleetStore,
  GrantOf,
  IssuedToken,
} from "./store.ts";

export interface EnrolmentRequest {
  readonly joinToken: string;
  /** PKCS#10, DER. */
  readonly csr: Uint8Array;
  readonly hostId: string;
  /** Source address, for the audit log. */
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

export interface EnrolmentOverview {
  readonly tokens: readonly IssuedToken[];
  readonly hosts: readonly EnrolledHost[];
  readonly authority: Pick<Authority, "hash" | "notAfterMs" | "lifeMs">;
}

export interface Enrolment {
  /** Throws NodeRefused, NodeBanned. */
  enroll(request: EnrolmentRequest): Promise<GivenCertificate>;
  /** Authenticated by the current certificate. Throws NodeRefused, NodeBanned. */
  renew(certificate: Buffer | undefined, csr: Uint8Array): Promise<GivenCertificate>;
  /** Returns the host of a session. Throws NodeRefused, NodeBanned. */
  admit(certificate: Buffer | undefined): Promise<HostId>;
  createToken(
    request: { readonly pool: string; readonly ttlMs: number; readonly forHost: string | undefined },
    act: Act,
  ): Promise<JoinToken>;
  /** By id or name. Throws nodeNotFound, nodeNameShared, nodeRevoked. */
  revoke(host: string, act: Act): Promise<void>;
  /** Join tokens, enrolled hosts, and what agents verify. */
  overview(): Promise<EnrolmentOverview>;
  /** Adopts instances there that belong to known deployments. Throws nodeNotFound, nodeNameShared, nodeNotBehind. */
  adopt(host: string, act: Act): Promise<AdoptedHost & { readonly hostId: HostId }>;
}

/** Id of the token for agents of this machine's `up`; its secret is in the secrets folder. */
export const standingTokenId = "installation";

export function createEnrolment(deps: {
  readonly store: EnrolmentStore;
  readonly fleet: Pick<FleetStore, "adopt" | "hosts">;
  readonly authority: Authority;
  /** For processes that may read the secrets folder. */
  readonly standingSecret: string;
  readonly grantOf: GrantOf;
  readonly nowMs: () => number;
}): Enrolment {
  const { store, authority } = deps;

  const read = (csr: Uint8Array) => {
    const request = authority.readRequest(csr);
    if (!request) throw new NodeRefused("the certificate request must be for a P-256 key and signed by it");
    return request;
  };
  const hostOf = (certificate: Buffer | undefined) => {
    if (!certificate)
      throw new NodeRefused("the client certificate is missing, expired or of another installation: join with a token");
    const identity = authority.identify(certificate);
    if (!identity.ok) throw new NodeRefused(identity.why);
    return identity;
  };
  const named = async (idOrName: string) => hostNamed(await deps.fleet.hosts(), idOrName);
  const requireKnown = async (host: HostId) => {
    if (!(await deps.fleet.hosts()).some((one) => one.id === host)) throw nodeNotFound(host);
  };
  /** A host that joined without a session yet also counts. */
  const requireJoined = async (host: HostId) => {
    if (!(await store.identity(host))) await requireKnown(host);
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
        throw new NodeRefused(
          "a certificate can only be renewed for its own key: join again with a token for a new key",
        );
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
      // Undefined: enrolled after the backup that this database was restored from. The signature is still valid.
      const known = await store.identity(hostId);
      if (known?.isRevoked) throw new NodeBanned(hostId);
      if (known && !known.keyHash.equals(keyHash))
        throw new NodeRefused(`host ${hostId} joined again with another key, so this certificate is no longer valid`);
      return hostId;
    },

    async createToken({ pool, ttlMs, forHost: wanted }, act) {
      const forHost = wanted === undefined ? undefined : await named(wanted);
      if (forHost !== undefined) await requireJoined(forHost);
      const id = randomId<"token">(12);
      const secret = randomBytes(32).toString("base64url");
      const expiresAtMs = deps.nowMs() + ttlMs;
      await store.addToken({ id, secretHash: hashOf(secret), pool, forHost, expiresAt: new Date(expiresAtMs) }, act);
      return { token: `${id}.${secret}.${authority.hash}`, id, expiresAtMs };
    },

    async revoke(idOrName, act) {
      const host = await named(idOrName);
      await requireJoined(host);
      if (!(await store.revoke(host, act))) throw nodeRevoked(host);
    },

    async overview() {
      const [tokens, hosts] = await Promise.all([store.tokens(), store.enrolled()]);
      return { tokens, hosts, authority };
    },

    async adopt(idOrName, act) {
      const host = await named(idOrName);
      await requireKnown(host);
      const adopted = await deps.fleet.adopt(host, act, deps.grantOf);
      if (!adopted) throw nodeNotBehind(host);
      return { ...adopted, hostId: host };
    },
  };
}

/** Reusable join token for agents that may read the secrets folder. */
export const standingToken = (secret: string, authority: Pick<Authority, "hash">): string =>
  `${standingTokenId}.${secret}.${authority.hash}`;

function refusal(verdict: Exclude<EnrolmentVerdict, "enrolled">, host: string): Error {
  const create = "create a new one with `stoker node token create`";
  switch (verdict) {
    case "unknown_token":
      return new NodeRefused(`unknown join token: ${create}`);
    case "used_token":
      return new NodeRefused(`the join token was used by another host, and each is valid for one: ${create}`);
    case "expired_token":
      return new NodeRefused(`the join token has expired: ${create}`);
    case "other_host":
      return new NodeRefused(`the join token is for another host than ${host}: ${create}`);
    case "host_taken":
      return new NodeRefused(
        `host ${host} joined with another key: if it lost its key, use a token created by ` +
          `\`stoker node token create --node ${host}\`; if its disk was copied, remove the agent's folder on the copy`,
      );
    case "revoked":
      return new NodeBanned(host);
  }
}

const hashOf = (secret: string): Buffer => createHash("sha256").update(secret).digest();
const isEqual = (given: string, expected: string): boolean => timingSafeEqual(hashOf(given), hashOf(expected));
