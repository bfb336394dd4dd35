// Plans a server with a known API that already runs: nothing is started, requests only pass the gate.
import { isOwnApi } from "../../proto/api-formats.ts";
import { BearerSecret } from "../../proto/bearer-secret.ts";
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import { identityOf, type PlanOutcome, refused } from "./host-facts.ts";

export function planExternal(spec: InstanceSpec__Output): PlanOutcome {
  const url = URL.parse(spec.externalUrl);
  if (!url || !/^https?:$/.test(url.protocol) || url.username !== "" || url.search !== "" || url.hash !== "")
    return refused(
      "bad_external_url",
      "the address of the external server must be http or https, without user, query or fragment; correct it and deploy again.",
    );
  if (spec.externalApi !== "" && !isOwnApi(spec.externalApi))
    return refused("bad_spec", "this agent does not know the format of the external server; update the agent.");
  const key = spec.weights?.token ?? "";
  return {
    ok: true,
    files: [],
    plan: {
      ...identityOf(spec),
      kind: "external",
      image: "",
      args: [],
      env: {},
      mounts: [],
      port: 0,
      memoryBytes: 0,
      cpus: 0,
      gpuUuids: [],
      shmBytes: 0,
      externalUrl: url.href.replace(/\/+$/, ""),
      ...(isOwnApi(spec.externalApi) ? { api: spec.externalApi } : {}),
      ...(key === "" ? {} : { secret: new BearerSecret(key) }),
    },
  };
}
