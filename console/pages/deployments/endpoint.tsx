import type { ReactNode } from "react";
import { serverUrl, useVisitor } from "../../app/visitor.ts";
import { callCode } from "../../domain/call-snippets.ts";
import type { Deployment } from "../../domain/deployment.ts";
import { text } from "../../text/deployments.ts";
import { Code, CodeTabs, Copy } from "../../ui/code.tsx";
import { Link } from "../../ui/link.tsx";
import { Facts, Section } from "../../ui/page.tsx";

const words = text.detail;

/** Address, model name and code of the interface that fits the task. */
export function Endpoint({ one }: { one: Deployment }): ReactNode {
  const url = serverUrl();
  const { newKey } = useVisitor();
  const { path, examples } = callCode({ url, model: one.model_name, task: one.task });
  return (
    <Section
      title={words.endpoint}
      about={
        <>
          {words.endpointAbout} {!newKey && <Link to="/keys">{words.noKeys}</Link>}
        </>
      }
    >
      <Facts
        isWide
        of={[
          { label: words.baseUrl, value: <Copied value={`${url}${path}`} /> },
          { label: words.modelName, value: <Copied value={one.model_name} /> },
          { label: words.directUrl, value: <Copied value={`${url}/v1/inference/deploy/${one.deploy_id}`} /> },
        ]}
      />
      <div style={{ marginTop: "var(--mantine-spacing-md)" }}>
        {newKey && <Code value={`export STOKER_API_KEY=${newKey}`} />}
        <CodeTabs examples={examples} />
      </div>
    </Section>
  );
}

const Copied = ({ value }: { value: string }): ReactNode => (
  <span className="copied">
    <code>{value}</code> <Copy value={value} />
  </span>
);
