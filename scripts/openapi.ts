// Writes docs/openapi.json from the routes themselves. Usage: npm run generate. CI fails if this changes the tree.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { Registry } from "prom-client";
import { createHttp } from "../control-plane/http/create-http.ts";
import type { HttpDeps } from "../control-plane/http/verbs.ts";

// The description needs the shape of the routes alone: nothing here is ever called.
const uncalled = new Proxy({}, { get: () => () => undefined }) as never;
const deps: HttpDeps = {
  authenticator: uncalled,
  spine: uncalled,
  dial: uncalled,
  bodies: uncalled,
  deployments: uncalled,
  modelRecords: uncalled,
  adapters: uncalled,
  placement: uncalled,
  containers: uncalled,
  agentInstances: uncalled,
  dashboards: undefined,
  agentBackups: uncalled,
  accounts: uncalled,
  profiles: uncalled,
  sshKeys: uncalled,
  voices: uncalled,
  speechModel: undefined,
  tokens: uncalled,
  sessions: uncalled,
  signIn: uncalled,
  cliLogins: uncalled,
  deleteAccount: uncalled,
  trustedProxies: [],
  scopedJwts: uncalled,
  idempotency: uncalled,
  usage: uncalled,
  usageDays: uncalled,
  requestLog: uncalled,
  checklists: uncalled,
  invoices: uncalled,
  limits: uncalled,
  paying: uncalled,
  charges: uncalled,
  moneyOverview: uncalled,
  publicUrl: undefined,
  isSignUpOpen: false,
  enrolment: undefined as never,
  admin: uncalled,
  hosts: uncalled,
  files: uncalled,
  batches: uncalled,
  spineOfLines: (spine) => spine,
  nodeWeights: uncalled,
  operator: uncalled,
  quotas: uncalled,
  applications: uncalled,
  webhooks: uncalled,
  prices: uncalled,
  discounts: uncalled,
  readiness: () => ({ isReady: true }),
  registry: new Registry(),
  log: pino({ enabled: false }),
  version: "",
};

const app = await createHttp(deps);
const document = `${JSON.stringify(app.swagger(), null, 2)}\n`;
await app.close();
writeFileSync(join(import.meta.dirname, "../docs/openapi.json"), document);
