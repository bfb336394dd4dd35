// Identity providers for the HTTP edge in tests: one provider, and one identity of ada.

import type { IdentityFeatures } from "../../control-plane/http/identity/features.ts";
import { identityNotFound, providerNotFound } from "../../control-plane/identity/errors.ts";
import type { Scim } from "../../control-plane/identity/scim.ts";
import { scimTokenInvalid } from "../../control-plane/identity/scim-errors.ts";
import type { ProviderRow, WorkloadIdentity } from "../../control-plane/identity/store.ts";
import { workloadNotFound } from "../../control-plane/identity/workload-identities.ts";
import type { AccountId, KeyId } from "../../proto/ids.ts";

export const provider: ProviderRow = {
  id: "provider-1",
  name: "Example",
  issuer: "https://login.example.com",
  clientId: "stoker",
  clientSecret: null,
  scopes: "openid email profile",
  domains: ["example.com"],
  isEnforced: false,
  isListed: true,
  trustsEmail: false,
  organization: null,
  defaultRole: null,
  groupsClaim: "groups",
  roleOfGroup: { engineers: "developer" },
  defaultProjects: [],
  projectsOfGroup: {},
  revision: 1,
  scimCreatedAtMs: null,
  createdAtMs: 1_786_000_000_000,
};

const known = async (id: string): Promise<ProviderRow> => {
  if (id !== provider.id) throw providerNotFound();
  return provider;
};

export const workload: WorkloadIdentity = {
  id: "workload-1",
  account: "u:1000000000001" as AccountId,
  name: "deploy",
  issuer: "https://token.actions.githubusercontent.com",
  audience: "https://stoker.example.com",
  subject: "repo:acme/app:ref:refs/heads/main",
  claims: {},
  role: "inference",
  allowedModels: null,
  lifeSeconds: 900,
  member: null,
  project: null,
  createdAtMs: 1_786_000_000_000,
  lastUsedAtMs: null,
};

const knownWorkload = async (_account: AccountId, id: string): Promise<WorkloadIdentity> => {
  if (id !== workload.id) throw workloadNotFound();
  return workload;
};

export function fakeIdentity(): IdentityFeatures {
  return {
    identityProviders: {
      list: async () => [provider],
      get: known,
      create: async () => provider,
      change: known,
      remove: known,
      offered: async () => [provider],
      check: async () => {},
    },
    oidc: {
      start: async (id) => {
        await known(id);
        return { url: "https://login.example.com/authorize", cookie: "a".repeat(43) };
      },
      finish: async () => ({ returnTo: "/console", step: undefined }),
      own: async () => [
        {
          id: "identity-1",
          provider: provider.id,
          providerName: provider.name,
          email: "ada@example.com",
          isManaged: false,
          createdAtMs: 1_786_000_000_000,
          lastUsedAtMs: null,
        },
      ],
      unlink: async (_actor, id) => {
        if (id !== "identity-1") throw identityNotFound();
      },
    },
    scim: {
      createToken: async (id: string) => {
        await known(id);
        return "scim_made";
      },
      removeToken: async (id: string) => void (await known(id)),
      enter: async () => {
        throw scimTokenInvalid();
      },
    } as unknown as Scim,
    workloads: {
      list: async () => [workload],
      get: knownWorkload,
      create: async () => workload,
      remove: knownWorkload,
      exchange: async () => ({
        key: "stk_made",
        id: "key-made" as KeyId,
        expiresAtMs: 1_786_000_900_000,
        rule: workload,
      }),
    },
  };
}
