import type { OidcSignIn } from "../../identity/oidc-sign-in.ts";
import type { Providers } from "../../identity/providers.ts";
import type { Scim } from "../../identity/scim.ts";

import type { WorkloadIdentities } from "../../identity/workload-identities.ts";

export interface IdentityFeatures {
  readonly identityProviders: Providers;
  readonly oidc: OidcSignIn;
  readonly scim: Scim;
  readonly workloads: WorkloadIdentities;
}
