// Chat with history, parameters, tools and a schema.
import { ActionIcon, Alert, Box, Button, Drawer, Group, NavLink, ScrollArea, Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconAdjustments, IconDownload, IconHistory, IconPlus, IconTrash } from "@tabler/icons-react";
import { type ReactNode, useEffect } from "react";
import { useFilter } from "../../app/place.ts";
import { costOf, requestOf, titleOf } from "../../domain/conversations.ts";
import { text as common } from "../../text/common.ts";
import { text } from "../../text/playground.ts";
import { Act } from "../../ui/act.tsx";
import { save } from "../../ui/data-table.tsx";
import { usd } from "../../ui/format.ts";
import { Section } from "../../ui/page.tsx";
import { Ago } from "../../ui/time.tsx";
import { ChatCode } from "./code-dialog.tsx";
import { Composer } from "./composer.tsx";
import { chosenOf, ModelSelect } from "./model-select.tsx";
import type { ModeProps } from "./playground.tsx";
import { SettingsForm } from "./settings-form.tsx";
import { Transcript } from "./transcript.tsx";
import { useConversation } from "./use-conversation.ts";
import { type Conversations, useConversations } from "./use-conversations.ts";
import { useTakesImages } from "./use-takes-images.ts";

const words = text.chat;

export function ChatMode({ models }: ModeProps): ReactNode {
  const conversations = useConversations();
  const { open, change } = conversations;
  const [wanted, setWanted] = useFilter("model");
  const [isListOpen, list] = useDisclosure();
  const [areSettingsOpen, panel] = useDisclosure();
  const model = chosenOf(models, wanted || open.model);
  const name = model.model_name;
  // A link into the playground names the model; later the conversation does.
  useEffect(() => {
    if (open.model !== name) change(open.id, (before) => ({ ...before, model: name }));
  }, [open.model, open.id, name, change]);
  const talk = useConversation({ ...open, model: name }, change);
  const takesImages = useTakesImages(model);
  const cost = costOf(open);
  const choose = (id: string) => {
    setWanted("");
    conversations.choose(id);
    list.close();
  };
  const create = () => {
    conversations.create();
    list.close();
  };
  const settings = (
    <Stack gap="md">
      <ModelSelect
        models={models}
        value={name}
        onChange={(next) => {
          setWanted("");
          change(open.id, (before) => ({ ...before, model: next }));
        }}
      />
      <SettingsForm
        settings={open.settings}
        maxOutput={model.max_tokens}
        onChange={(next) => change(open.id, (before) => ({ ...before, settings: next }))}
      />
    </Stack>
  );
  const history = <History of={conversations} onChoose={choose} onCreate={create} isBusy={talk.live !== undefined} />;
  return (
    <Group align="stretch" gap="md" wrap="nowrap">
      <Box w={230} visibleFrom="xl" style={{ flexShrink: 0 }}>
        {history}
      </Box>
      <Box style={{ flex: 1, minWidth: 0 }}>
        <Section>
          <Box className="chat">
            <Group justify="space-between" gap="xs" mb="xs">
              <Group gap="xs">
                <Button
                  size="xs"
                  variant="default"
                  hiddenFrom="xl"
                  leftSection={<IconHistory size={16} />}
                  onClick={list.open}
                >
                  {words.conversations}
                </Button>
                <Button
                  size="xs"
                  variant="default"
                  hiddenFrom="lg"
                  leftSection={<IconAdjustments size={16} />}
                  onClick={panel.open}
                >
                  {words.settings}
                </Button>
                <Text size="sm" fw={600} truncate maw={360}>
                  {name}
                </Text>
                {cost > 0 && (
                  <Text size="xs" c="dimmed">
                    {words.total(usd(cost))}
                  </Text>
                )}
              </Group>
              <Group gap="xs">
                <ChatCode requestOf={() => requestOf(name, open.settings, exampleOf(open.turns))} />
                <Button
                  size="xs"
                  variant="default"
                  leftSection={<IconPlus size={16} />}
                  disabled={open.turns.length === 0}
                  onClick={create}
                >
                  {words.newChat}
                </Button>
              </Group>
            </Group>
            <Transcript
              key={open.id}
              turns={open.turns}
              talk={talk}
              empty={<Examples onChoose={(prompt) => talk.send(prompt)} />}
            />
            <Composer
              key={`composer-${open.id}`}
              isBusy={talk.live !== undefined}
              takesImages={takesImages}
              onSend={talk.send}
              onStop={talk.stop}
            />
          </Box>
        </Section>
      </Box>
      <Box w={290} visibleFrom="lg" style={{ flexShrink: 0 }}>
        <Section title={words.settings}>{settings}</Section>
      </Box>
      <Drawer
        opened={isListOpen}
        onClose={list.close}
        title={words.conversations}
        closeButtonProps={{ "aria-label": common.close }}
      >
        {history}
      </Drawer>
      <Drawer
        opened={areSettingsOpen}
        onClose={panel.close}
        position="right"
        title={words.settings}
        closeButtonProps={{ "aria-label": common.close }}
      >
        {settings}
      </Drawer>
    </Group>
  );
}

/** Code of an empty chat has an example message. */
/** Up to the last question: a call that ends with an answer continues that answer. */
const exampleOf = (turns: Conversations["open"]["turns"]): Conversations["open"]["turns"] => {
  const asked = turns.slice(0, turns.findLastIndex(({ message }) => message.role === "user") + 1);
  return asked.length > 0 ? asked : [{ message: { role: "user", content: words.examples[0] } }];
};

export function Examples({ onChoose }: { onChoose: (prompt: string) => void }): ReactNode {
  return (
    <Stack align="center" justify="center" gap="sm" py="xl">
      <Text c="dimmed" size="sm">
        {words.empty}
      </Text>
      <Group gap="xs" justify="center">
        {words.examples.map((prompt) => (
          <Button key={prompt} size="xs" variant="default" radius="xl" onClick={() => onChoose(prompt)}>
            {prompt}
          </Button>
        ))}
      </Group>
    </Stack>
  );
}

interface HistoryProps {
  readonly of: Conversations;
  readonly isBusy: boolean;
  readonly onChoose: (id: string) => void;
  readonly onCreate: () => void;
}

function History({ of, isBusy, onChoose, onCreate }: HistoryProps): ReactNode {
  const stored = of.all.filter(({ turns }) => turns.length > 0);
  return (
    <Stack gap="xs">
      <Button
        variant="default"
        size="xs"
        leftSection={<IconPlus size={16} />}
        disabled={isBusy || of.open.turns.length === 0}
        onClick={onCreate}
      >
        {words.newChat}
      </Button>
      <ScrollArea.Autosize mah="60vh" type="auto">
        <nav aria-label={words.conversations}>
          {stored.map((one) => (
            <Group key={one.id} gap={0} wrap="nowrap" className="conversation">
              <NavLink
                component="button"
                active={one.id === of.open.id}
                disabled={isBusy}
                label={titleOf(one) || words.untitled}
                description={<Ago at={one.changedAt / 1000} />}
                aria-current={one.id === of.open.id ? "true" : undefined}
                onClick={() => onChoose(one.id)}
              />
              <ActionIcon
                variant="subtle"
                color="gray"
                disabled={isBusy}
                aria-label={`${words.delete}: ${titleOf(one)}`}
                onClick={() => of.remove(one.id)}
              >
                <IconTrash size={15} />
              </ActionIcon>
            </Group>
          ))}
        </nav>
      </ScrollArea.Autosize>
      {of.isStored ? (
        <Text size="xs" c="dimmed">
          {words.keptHere}
        </Text>
      ) : (
        <Alert color="yellow" variant="light" p="xs">
          {words.notKept}
        </Alert>
      )}
      {stored.length > 0 && (
        <Group gap="xs">
          <Button
            size="compact-xs"
            variant="subtle"
            color="gray"
            leftSection={<IconDownload size={14} />}
            onClick={() => save("conversations.json", "application/json", JSON.stringify(stored, null, 2))}
          >
            {words.export}
          </Button>
          <Act
            label={words.deleteAll}
            size="compact-xs"
            variant="subtle"
            color="red"
            disabled={isBusy}
            confirm={{ title: words.deleteAllTitle, body: words.deleteAllBody(stored.length) }}
            onAct={async () => of.removeAll()}
          />
        </Group>
      )}
    </Stack>
  );
}
