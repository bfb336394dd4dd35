import { Badge, Group, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useGet } from "../../api/hooks.ts";
import type { Capabilities } from "../../domain/capabilities.ts";
import type { Deployment } from "../../domain/deployment.ts";
import { modelPage } from "../../domain/models.ts";
import { text } from "../../text/models.ts";
import { Link } from "../../ui/link.tsx";
import { Status } from "../../ui/status.tsx";
import { Ago } from "../../ui/time.tsx";

const names = ["tools", "images", "reasoning"] as const;

export function Features({ of }: { of: Capabilities }): ReactNode {
  const known = names.filter((name) => of[name] === true);
  if (known.length === 0)
    return (
      <Text component="span" size="sm" c="dimmed">
        {names.every((name) => of[name] === undefined) ? text.featuresUnknown : "–"}
      </Text>
    );
  return (
    <Group gap={4}>
      {known.map((name) => (
        <Badge key={name} size="sm" variant="light" color="gray" tt="none">
          {text.features[name]}
        </Badge>
      ))}
    </Group>
  );
}

interface Deprecable {
  readonly model_name: string;
  readonly deprecated: number;
  readonly replaced_by: string;
}

/** A model of the account's own deployments has their status until one of them serves it. */
export function ModelStatus({
  of: { model_name: name, deprecated, replaced_by: other },
}: {
  of: Deprecable;
}): ReactNode {
  const { data = [] } = useGet<readonly Deployment[]>("/deploy/list", { everyMs: 30_000 });
  const own = data.filter((one) => one.model_name === name && one.status !== "deleted");
  if (own[0] && own.every(({ status }) => status !== "deployed")) return <Status of={own[0].status} />;
  if (deprecated === 0)
    return (
      <Badge color="green" variant="light" tt="none" className="status">
        <span aria-hidden="true">●</span> {text.available}
      </Badge>
    );
  return (
    <div>
      <Badge color="yellow" variant="light" tt="none" className="status">
        <span aria-hidden="true">▲</span> {text.deprecatedSince} <Ago at={deprecated} />
      </Badge>
      {other && (
        <Text size="xs" c="dimmed">
          {text.replacedBy} <Link to={modelPage(other)}>{other}</Link>
        </Text>
      )}
    </div>
  );
}
