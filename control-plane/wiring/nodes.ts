// The installation's certificate authority and enrolment. The authority's key is created once and stored sealed in the database.
// The permanent join token is written to a file, for agents that can read it.
import type { Logger } from "pino";
import type { AccountSecrets } from "../accounts/envelope.ts";
import { authoritySeal } from "../accounts/seals.ts";
import { adoptedClaim } from "../deployments/place-fit.ts";
import { type Authority, makeAuthority, openAuthority } from "../fleet/authority.ts";
import { createEnrolment, type Enrolment, standingToken } from "../fleet/enrolment.ts";
import type { FleetStore } from "../fleet/store.ts";
import type { GrpcDeps } from "../rpc/grpc-server.ts";
import type { OpenDatabase } from "../store/core/database.ts";
import { createEnrolmentStore } from "../store/fleet/enrolment-store.ts";
import { keepFile } from "../write-file.ts";

export interface Nodes {
  readonly enrolment: Enrolment;
  readonly rpc: Pick<GrpcDeps, "issueOwn" | "enroll" | "renew" | "admit">;
  readonly issueGateway: Authority["issueGateway"];
}

const authorityName = "nodes";

/** Throws when the database is unavailable, or no key of the secrets folder opens the authority's key. */
export async function createNodes(parts: {
  readonly db: OpenDatabase["db"];
  readonly fleetStore: Pick<FleetStore, "adopt" | "hosts">;
  readonly secrets: AccountSecrets;
  readonly standingSecret: string;
  /** File that receives the permanent join token. */
  readonly agentTokenFile: string;
  readonly certificateLifeMs: number;
  readonly log: Logger;
}): Promise<Nodes> {
  const store = createEnrolmentStore(parts.db);
  const seal = authoritySeal(parts.secrets);
  const kept = await store.authority(async () => {
    const made = makeAuthority(Date.now());
    return { certificate: made.certificate, sealedKey: seal.seal(made.key, authorityName) };
  });
  const authority = openAuthority(
    { certificate: kept.certificate, key: seal.open(kept.sealedKey, authorityName) },
    { nowMs: Date.now, lifeMs: parts.certificateLifeMs },
  );
  const { standingSecret } = parts;
  await keepFile(parts.agentTokenFile, `${standingToken(standingSecret, authority)}\n`, parts.log);
  const enrolment = createEnrolment({
    store,
    fleet: parts.fleetStore,
    authority,
    standingSecret,
    grantOf: adoptedClaim,
    nowMs: Date.now,
  });
  const { enroll, renew, admit } = enrolment;
  return {
    enrolment,
    rpc: { issueOwn: authority.issueOwn, enroll, renew, admit },
    issueGateway: authority.issueGateway,
  };
}
