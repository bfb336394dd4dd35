// Repositories of the model hub that match a search.
import { Alert, Badge, Button, Group, Stack, Text, Title } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { ApiError } from "../../api/client.ts";
import { useGet } from "../../api/hooks.ts";
import { text } from "../../text/deployments.ts";
import { count } from "../../ui/format.ts";
import { Loaded } from "../../ui/notice.tsx";

type HubAnswer = Responses["GET /v1/hub/models"];
export type HubModel = HubAnswer["models"][number];

const words = text.create.hub;
const minLength = 2;

/** Shown if the hub cannot be reached, before anything is searched. */
export function HubState(): ReactNode {
  // The most common word: the server keeps its result for all accounts.
  const { error } = useGet<HubAnswer>("/v1/hub/models?search=instruct&limit=1");
  if (!(error instanceof ApiError) || error.code !== "hub_unavailable") return null;
  return (
    <Alert color="yellow" variant="light" mb="md" title={words.unreachable}>
      {words.unreachableAbout(error.message)}
    </Alert>
  );
}

interface HubResultsProps {
  readonly search: string;
  /** Empty: all. */
  readonly task: string;
  readonly chosen: string;
  readonly onChoose: (model: HubModel) => void;
}

export function HubResults({ search, task, chosen, onChoose }: HubResultsProps): ReactNode {
  const [settled] = useDebouncedValue(search.trim(), 400);
  const query = new URLSearchParams({ search: settled, ...(task === "" ? {} : { task }) });
  const found = useGet<HubAnswer>(`/v1/hub/models?${query}`, { enabled: settled.length >= minLength });
  if (settled.length < minLength) return null;
  return (
    <Stack gap="xs" component="section" aria-labelledby="hub-results">
      <Title order={3} size="sm" id="hub-results">
        {words.title}
      </Title>
      <Loaded query={found}>
        {({ models }) =>
          models.length === 0 ? (
            <Text size="sm">{words.none}</Text>
          ) : (
            <Stack gap={0} component="ul" className="plain-list">
              {models.map((model) => (
                <HubRow
                  key={model.name}
                  model={model}
                  isChosen={model.name === chosen}
                  onChoose={() => onChoose(model)}
                />
              ))}
            </Stack>
          )
        }
      </Loaded>
    </Stack>
  );
}

interface HubRowProps {
  readonly model: HubModel;
  readonly isChosen: boolean;
  readonly onChoose: () => void;
}

function HubRow({ model, isChosen, onChoose }: HubRowProps): ReactNode {
  const label = isChosen ? text.create.chosen : text.create.choose;
  return (
    <Group component="li" justify="space-between" gap="sm" py={6} wrap="nowrap">
      <div>
        <Text size="sm" fw={600} style={{ overflowWrap: "anywhere" }}>
          {model.name}{" "}
          {model.gated && (
            <Badge variant="light" color="yellow" size="sm" tt="none">
              {text.create.gated}
            </Badge>
          )}
        </Text>
        <Text size="xs" c="dimmed">
          {[model.task, ...model.formats, words.downloads(count(model.downloads))].filter(Boolean).join(" · ")}
        </Text>
      </div>
      <Button
        size="xs"
        variant={isChosen ? "filled" : "default"}
        aria-pressed={isChosen}
        aria-label={`${label}: ${model.name}`}
        onClick={onChoose}
      >
        {label}
      </Button>
    </Group>
  );
}
