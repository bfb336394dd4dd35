// Weights: from the catalogue, or a repository or address by hand.
import {
  Badge,
  Button,
  Card,
  Checkbox,
  Group,
  PasswordInput,
  Select,
  SimpleGrid,
  Stack,
  Tabs,
  Text,
  TextInput,
} from "@mantine/core";
import { IconCheck, IconLock, IconSearch } from "@tabler/icons-react";
import { type ReactNode, useState } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import type { ApiError } from "../../api/client.ts";
import { useGet } from "../../api/hooks.ts";
import { type DeployForm, type FaultName, kindOfSource, tasks } from "../../domain/new-deployment.ts";
import { text } from "../../text/deployments.ts";
import { Loaded } from "../../ui/notice.tsx";
import { Empty, Section } from "../../ui/page.tsx";
import { fieldOf } from "./fits.ts";
import { type HubModel, HubResults, HubState } from "./hub-results.tsx";
import type { Change } from "./new-deployment.tsx";

type Catalogue = Responses["GET /v1/model-catalogue"];
export type CatalogueModel = Catalogue["models"][number];

const words = text.create;
const shownAtFirst = 6;

export interface FormPart {
  readonly form: DeployForm;
  readonly change: Change;
  readonly faults: Partial<Record<keyof DeployForm, FaultName>>;
  /** Refusal of the last check. */
  readonly error: ApiError | undefined;
}

export function ModelChoice({ form, change, faults, error, owner }: FormPart & { owner: string }): ReactNode {
  const catalogue = useGet<Catalogue>("/v1/model-catalogue");
  const models = catalogue.data?.models ?? [];
  const listed = models.find(({ name, gguf }) => form.source !== "" && [name, gguf].includes(form.source));
  const [tab, setTab] = useState<string | null>(() => (form.source === "" ? "catalogue" : "own"));
  const kind = kindOfSource(form.source);
  return (
    <Section title={words.model}>
      <HubState />
      <Tabs value={tab} onChange={setTab} keepMounted={false}>
        <Tabs.List mb="md">
          <Tabs.Tab value="catalogue">{words.catalogue}</Tabs.Tab>
          <Tabs.Tab value="own">{words.own}</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="catalogue">
          <Loaded query={catalogue}>
            {({ models: all }) => (
              <CatalogueCards
                models={all.toSorted(byUse)}
                chosen={listed?.name}
                source={form.source}
                onFound={({ name, task }) =>
                  change({
                    source: name,
                    revision: "",
                    ...(task !== null && (tasks as readonly string[]).includes(task) ? { task } : {}),
                  })
                }
                onChoose={(model) => change({ source: model.name, revision: "", task: model.task })}
                onRepository={(source) => {
                  change({ source });
                  setTab("own");
                }}
              />
            )}
          </Loaded>
        </Tabs.Panel>
        <Tabs.Panel value="own">
          <SimpleGrid cols={{ base: 1, sm: 2 }}>
            <TextInput
              label={words.source}
              description={words.sourceHints[kind]}
              value={form.source}
              maxLength={256}
              required
              spellCheck={false}
              autoComplete="off"
              placeholder="Qwen/Qwen3-8B"
              error={
                (form.source !== "" && faults.source && words.faults[faults.source]) ||
                (fieldOf(error) === "source" ? error?.message : undefined)
              }
              onChange={(event) => change({ source: event.currentTarget.value.trim() })}
            />
            <Select
              label={words.task}
              description={kind === "hub" ? undefined : words.sourceHints[kind]}
              data={tasks}
              value={form.task}
              allowDeselect={false}
              searchable
              onChange={(task) => change({ task: task ?? "text-generation" })}
            />
          </SimpleGrid>
        </Tabs.Panel>
      </Tabs>
      {form.source !== "" && (
        <Stack gap="sm" mt="md">
          {listed && listed.gguf !== "" && (
            <Checkbox
              label={words.takeGguf(listed.gguf)}
              checked={form.source === listed.gguf}
              onChange={(event) => change({ source: event.currentTarget.checked ? listed.gguf : listed.name })}
            />
          )}
          {listed?.gated && (
            <Text size="sm">
              <IconLock size={14} aria-hidden="true" /> {words.gatedHint}
            </Text>
          )}
          <SimpleGrid cols={{ base: 1, sm: 3 }}>
            <TextInput
              label={words.name}
              description={words.nameHint(owner)}
              value={form.name}
              maxLength={225}
              required
              spellCheck={false}
              autoComplete="off"
              error={
                (faults.name && words.faults[faults.name]) || (fieldOf(error) === "name" ? error?.message : undefined)
              }
              onChange={(event) => change({ name: event.currentTarget.value })}
            />
            <TextInput
              label={words.revision}
              description={words.revisionHint}
              value={form.revision}
              maxLength={128}
              disabled={kind === "s3" || kind === "oci"}
              spellCheck={false}
              autoComplete="off"
              onChange={(event) => change({ revision: event.currentTarget.value })}
            />
            <PasswordInput
              label={words.token}
              description={words.tokenHints[kind]}
              value={form.token}
              maxLength={256}
              autoComplete="off"
              onChange={(event) => change({ token: event.currentTarget.value })}
            />
          </SimpleGrid>
        </Stack>
      )}
    </Section>
  );
}

/** Language models first, and small ones, which most fleets can run. */
const byUse = (a: CatalogueModel, b: CatalogueModel): number =>
  Number(b.task === "text-generation") - Number(a.task === "text-generation") || a.parameters - b.parameters;

interface CatalogueCardsProps {
  readonly models: readonly CatalogueModel[];
  readonly chosen: string | undefined;
  /** Source chosen in the form. */
  readonly source: string;
  readonly onChoose: (model: CatalogueModel) => void;
  readonly onFound: (model: HubModel) => void;
  readonly onRepository: (name: string) => void;
}

function CatalogueCards({ models, chosen, source, onChoose, onFound, onRepository }: CatalogueCardsProps): ReactNode {
  const [search, setSearch] = useState("");
  const [task, setTask] = useState("");
  const [isAll, setAll] = useState(false);
  const words_ = search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = models.filter(
    (model) =>
      (task === "" || model.task === task) &&
      words_.every((word) => `${model.name} ${model.task}`.toLowerCase().includes(word)),
  );
  // The chosen model stays visible.
  const first = found.filter(({ name }, index) => index < shownAtFirst || name === chosen);
  const shown = isAll || search !== "" || task !== "" ? found : first;
  return (
    <Stack gap="sm">
      <Group gap="sm" align="flex-end">
        <TextInput
          type="search"
          label={words.search}
          leftSection={<IconSearch size={16} />}
          value={search}
          onChange={(event) => setSearch(event.currentTarget.value)}
          flex={1}
          miw={200}
        />
        <Select
          label={words.task}
          data={[{ value: "", label: words.allTasks }, ...new Set(models.map((model) => model.task))]}
          value={task}
          allowDeselect={false}
          onChange={(value) => setTask(value ?? "")}
          w={200}
        />
      </Group>
      {found.length === 0 && (
        <Empty
          action={
            /^[\w.-]+\/[\w.-]+$/.test(search.trim()) && (
              <Button variant="default" onClick={() => onRepository(search.trim())}>
                {words.takeRepository(search.trim())}
              </Button>
            )
          }
        >
          {words.noModels}
        </Empty>
      )}
      <SimpleGrid cols={{ base: 1, sm: 2, xl: 3 }} spacing="sm" component="ul" className="cards-grid">
        {shown.map((model) => (
          <ModelCard key={model.name} model={model} isChosen={model.name === chosen} onChoose={() => onChoose(model)} />
        ))}
      </SimpleGrid>
      {shown.length < found.length && (
        <Button variant="default" size="xs" onClick={() => setAll(true)} style={{ alignSelf: "flex-start" }}>
          {words.showAll(found.length)}
        </Button>
      )}
      <HubResults search={search} task={task} chosen={source} onChoose={onFound} />
      <Text size="xs" c="dimmed">
        {words.searchHint}
      </Text>
    </Stack>
  );
}

interface ModelCardProps {
  readonly model: CatalogueModel;
  readonly isChosen: boolean;
  readonly onChoose: () => void;
}

function ModelCard({ model, isChosen, onChoose }: ModelCardProps): ReactNode {
  const [owner = "", name = model.name] = model.name.split("/");
  const [largest] = model.weights;
  const isMixture = model.active_parameters < model.parameters;
  return (
    <Card component="li" withBorder padding="sm" className="choice-card" data-chosen={isChosen}>
      <Stack gap={6} h="100%" justify="space-between">
        <div>
          <Text size="xs" c="dimmed">
            {owner}
          </Text>
          <Text fw={600} size="sm" style={{ overflowWrap: "anywhere" }}>
            {name}
          </Text>
          <Group gap={4} my={6}>
            <Badge variant="light" color="gray" size="sm" tt="none">
              {model.task}
            </Badge>
            {model.gated && (
              <Badge variant="light" color="yellow" size="sm" tt="none" leftSection={<IconLock size={10} />}>
                {words.gated}
              </Badge>
            )}
          </Group>
          <Text size="xs" c="dimmed">
            {[
              words.billions(model.parameters),
              isMixture && words.active(model.active_parameters),
              model.context_length > 0 && words.context(model.context_length),
              largest && words.weights(largest.gib, largest.quantisation),
              model.licence,
            ]
              .filter(Boolean)
              .join(" · ")}
          </Text>
        </div>
        <Button
          size="xs"
          variant={isChosen ? "filled" : "default"}
          aria-pressed={isChosen}
          aria-label={`${isChosen ? words.chosen : words.choose}: ${model.name}`}
          leftSection={isChosen ? <IconCheck size={14} /> : undefined}
          onClick={onChoose}
        >
          {isChosen ? words.chosen : words.choose}
        </Button>
      </Stack>
    </Card>
  );
}
