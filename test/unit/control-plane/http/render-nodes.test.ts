import { describe, expect, it } from "vitest";
import type { NodeInstance } from "../../../../control-plane/fleet/host-operations.ts";
import { renderNode } from "../../../../control-plane/http/operator/render-nodes.ts";
import type { AccountId, DeploymentId, InstanceId } from "../../../../proto/ids.ts";
import { gpu, hostNode, hostView, inventory } from "../../../fakes/fleet-records.ts";

const first = hostNode.instances[0] as NodeInstance;
const other: NodeInstance = {
  ...first,
  id: "instance-2" as InstanceId,
  deployId: "D000000000000002" as DeploymentId,
  modelName: "bob/llm",
  account: "u:0000000000002" as AccountId,
  email: "bob@example.com",
};
const node = (...instances: NodeInstance[]) =>
  renderNode({
    ...hostView("node-1", { inventory: inventory({ gpus: [gpu(0), gpu(1)] }) }),
    figures: undefined,
    instances,
  });

describe("a host as operators see it", () => {
  it("names deployment and customer of each GPU before the host reported", () => {
    const { gpus, instances } = node(first);
    expect(gpus).toMatchObject([
      { deploy_id: first.deployId, deploy_name: "ada/llm", account: { uid: first.account, email: "ada@example.com" } },
      { deploy_id: null, deploy_name: null, account: null },
    ]);
    expect(instances).toMatchObject([
      { deploy_name: "ada/llm", kind: "model", account: { email: "ada@example.com" }, gpu_uuids: ["GPU-0"] },
    ]);
  });

  it("names no customer of a GPU that several use in turn", () => {
    const [shared] = node(first, other).gpus;
    expect(shared).toMatchObject({ deploy_name: "ada/llm", account: null });
    expect(node(first, { ...other, account: first.account }).gpus[0]?.account?.uid).toBe(first.account);
  });
});
