// A control plane with everything switched on that its routes may use, on a real PostgreSQL.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startHub } from "../fakes/hub.ts";
import { type Stack, type StackOptions, startStack } from "../fakes/processes.ts";

/** Repository that the hub of this installation knows; it answers 401 for any other. */
export const hubRepo = "acme/known-model";
export const stripeWebhookSecret = "whsec_contract";

const plans = [{ id: "standard", vcpu: 1, ram_gb: 1, price_per_hour: 0.06 }];
const catalog = {
  types: [
    {
      ...{ id: "workspace", pretty_name: "Workspace", version: "1", image: "catalogue/workspace:1" },
      ...{ port: 8000, volume_path: "/data", plans },
    },
    {
      ...{ id: "desktop", pretty_name: "Desktop", version: "1", image: "catalogue/desktop:1" },
      ...{ port: 8000, has_dashboard: true, volume_path: "/data", plans },
    },
  ],
};

/** Nothing listens at the provider's address. */
export const unreachableStripe = {
  STRIPE_API_BASE: "http://127.0.0.1:9",
  STRIPE_SECRET_KEY: "sk_test_contract",
  STRIPE_WEBHOOK_SECRET: stripeWebhookSecret,
};

export async function startInstallation(options: StackOptions = {}): Promise<Stack> {
  const folder = mkdtempSync(join(tmpdir(), "stoker-contract-"));
  const catalogFile = join(folder, "catalog.json");
  writeFileSync(catalogFile, JSON.stringify(catalog));
  const hub = await startHub({
    repo: hubRepo,
    files: {
      "onnx/model.onnx": Buffer.from("onnx"),
      "config.json": Buffer.from(JSON.stringify({ architectures: ["LlamaForCausalLM"], model_type: "llama" })),
    },
  });
  const close = async () => {
    await hub.close();
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const stack = await startStack({
      agents: 0,
      ...options,
      controlPlaneEnv: {
        HF_ENDPOINT: hub.url,
        STOKER_AGENT_CATALOG: catalogFile,
        STOKER_ANONYMOUS_RATE: "1000000",
        STOKER_DASHBOARD_URL: "http://*.dash.localhost",
        STOKER_LOG_LEVEL: "warn",
        STOKER_SIGN_UP: "open",
        STOKER_TRUSTED_PROXIES: "127.0.0.1",
        ...options.controlPlaneEnv,
      },
    });
    const stop = async () => {
      await stack.stop();
      await close();
    };
    return { ...stack, stop };
  } catch (error) {
    await close();
    throw error;
  }
}
