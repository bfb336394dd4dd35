// Writes docs/openapi.json from the routes themselves. Usage: npm run generate. With a folder it writes there instead
// (scripts/suites/checks.ts).
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { Registry } from "prom-client";
import { createHttp, type HttpDeps } from "../control-plane/http/core/create-http.ts";

// Only the shape of the routes is needed: no feature is ever called.
const uncalled = new Proxy({}, { get: () => () => undefined });
const known: Partial<HttpDeps> = {
  dashboards: undefined,
  speechModel: undefined,
  trustedProxies: [],
  corsOrigins: [],
  publicUrl: undefined,
  isSignUpOpen: false,
  readiness: () => ({ isReady: true }),
  registry: new Registry(),
  log: pino({ enabled: false }),
  version: "",
};
const deps = new Proxy(known, {
  get: (target, name) => (name in target ? Reflect.get(target, name) : uncalled),
}) as HttpDeps;

const app = await createHttp(deps);
const document = `${JSON.stringify(app.swagger(), null, 2)}\n`;
await app.close();
const docs = join(process.argv[2] ?? join(import.meta.dirname, ".."), "docs");
mkdirSync(docs, { recursive: true });
writeFileSync(join(docs, "openapi.json"), document);
