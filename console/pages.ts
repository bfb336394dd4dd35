// All pages with their paths. The menu lists pages without parameters.
import type { FunctionComponent } from "preact";
import { matchPath } from "./match-path.ts";
import { Accounts } from "./pages/accounts.ts";
import { Adapters } from "./pages/adapters.ts";
import { AgentPage } from "./pages/agent.ts";
import { Agents } from "./pages/agents.ts";
import { Audit } from "./pages/audit.ts";
import { Batches } from "./pages/batches.ts";
import { Billing } from "./pages/billing.ts";
import { Containers } from "./pages/containers.ts";
import { DeploymentPage } from "./pages/deployment.ts";
import { Deployments } from "./pages/deployments.ts";
import { Files } from "./pages/files.ts";
import { Fleet } from "./pages/fleet.ts";
import { Incidents } from "./pages/incidents.ts";
import { Keys } from "./pages/keys.ts";
import { Limits } from "./pages/limits.ts";
import { Model } from "./pages/model.ts";
import { Models } from "./pages/models.ts";
import { Money } from "./pages/money.ts";
import { NewDeployment } from "./pages/new-deployment.ts";
import { NodePage } from "./pages/node.ts";
import { AnyRequestPage, RequestPage } from "./pages/request.ts";
import { AnyRequestLog, RequestLog } from "./pages/request-log.ts";
import { Requests } from "./pages/requests.ts";
import { Security } from "./pages/security.ts";
import { Start } from "./pages/start.ts";
import { UsagePage } from "./pages/usage.ts";
import { Voices } from "./pages/voices.ts";
import { Webhooks } from "./pages/webhooks.ts";

export type Section = "use" | "money" | "operator";

export interface Page {
  /** Without `/console`. `:name` matches one segment, which is a property of the page. */
  readonly path: string;
  readonly title: string;
  readonly section: Section;
  readonly show: FunctionComponent<Record<string, string>>;
}

// A page declares the parameters of its path.
const page = <Params>(path: string, title: string, section: Section, show: FunctionComponent<Params>): Page => ({
  path,
  title,
  section,
  show: show as FunctionComponent<Record<string, string>>,
});

export const pages: readonly Page[] = [
  page("/", "First call", "use", Start),
  page("/models", "Models", "use", Models),
  page("/models/:name", "Model", "use", Model),
  page("/deployments", "Deployments", "use", Deployments),
  page("/deployments/new", "Deploy a model", "use", NewDeployment),
  page("/deployments/:id", "Deployment", "use", DeploymentPage),
  page("/adapters", "Adapters", "use", Adapters),
  page("/voices", "Voices", "use", Voices),
  page("/files", "Files", "use", Files),
  page("/batches", "Batches", "use", Batches),
  page("/containers", "Containers", "use", Containers),
  page("/agents", "Agents", "use", Agents),
  page("/agents/:id", "Agent", "use", AgentPage),
  page("/keys", "Keys", "use", Keys),
  page("/security", "Security", "use", Security),
  page("/webhooks", "Webhooks", "use", Webhooks),
  page("/limits", "Limits", "use", Limits),
  page("/usage", "Usage", "money", UsagePage),
  page("/request-log", "Request log", "money", RequestLog),
  page("/request-log/:id", "Request", "money", RequestPage),
  page("/billing", "Billing", "money", Billing),
  page("/incidents", "Incidents", "operator", Incidents),
  page("/fleet", "Fleet", "operator", Fleet),
  page("/nodes/:id", "Host", "operator", NodePage),
  page("/requests", "Requests", "operator", Requests),
  page("/money", "Money safety", "operator", Money),
  page("/accounts", "Accounts", "operator", Accounts),
  page("/any-request-log", "All requests", "operator", AnyRequestLog),
  page("/any-request-log/:id", "Request", "operator", AnyRequestPage),
  page("/audit", "Audit", "operator", Audit),
];

export interface Match {
  readonly page: Page;
  readonly params: Readonly<Record<string, string>>;
}

export function matchPage(path: string): Match | undefined {
  for (const page of pages) {
    const params = matchPath(page.path, path);
    if (params) return { page, params };
  }
  return undefined;
}
