// One installation for all files of the project: each file creates accounts of its own.
import type { TestProject } from "vitest/node";
import { buildConsole } from "../../scripts/build-console.ts";
import { buildDocs } from "../../scripts/build-docs.ts";
import type { ControlPlane } from "../fakes/processes.ts";
import { startInstallation, unreachableStripe } from "./installation.ts";

declare module "vitest" {
  interface ProvidedContext {
    readonly installation: {
      readonly url: string;
      /** Control plane with sign-up closed and an unreachable payment provider. */
      readonly closedUrl: string;
      readonly operatorKey: string;
      readonly databaseUrl: string;
      readonly rpcAddress: string;
      readonly secretsDir: string;
    };
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await Promise.all([buildConsole(), buildDocs()]);
  const stack = await startInstallation({
    replicas: 2,
    replicaEnv: (n): Record<string, string> => (n === 1 ? {} : { STOKER_SIGN_UP: "closed", ...unreachableStripe }),
  });
  project.provide("installation", {
    url: stack.url,
    closedUrl: (stack.controlPlanes[1] as ControlPlane).url,
    operatorKey: stack.apiKey,
    databaseUrl: stack.databaseUrl,
    rpcAddress: stack.rpcAddress,
    secretsDir: stack.secretsDir,
  });
  return stack.stop;
}
