/** A graph that can be moved, and that stands still while its states change. */
import "@xyflow/react/dist/base.css";
import {
  Background,
  BackgroundVariant,
  Controls,
  type Edge,
  Handle,
  MarkerType,
  MiniMap,
  type Node,
  type NodeProps,
  Position,
  ReactFlow,
  ReactFlowProvider,
  useReactFlow,
} from "@xyflow/react";
import { memo, useEffect, useMemo, useRef, useState } from "react";
import { Icon } from "../parts/Icon.tsx";
import { StateIcon, words } from "../parts/State.tsx";
import type { Arrow, Box, Drawing } from "./drawing.ts";
import "./graph.css";
import { type Direction, MOST_ITEMS, placed } from "./layout.ts";

interface Shown extends Record<string, unknown> {
  box: Box;
  isOpen: boolean;
  toggle: (id: string) => void;
  direction: Direction;
}
type BoxNode = Node<Shown, "box">;

interface Props {
  drawing: Drawing;
  chosen?: string;
  choose?: (id: string | undefined) => void;
  label: string;
  /** Large graphs get a map. */
  height?: number | string;
}

export default function GraphView(props: Props) {
  return (
    <ReactFlowProvider>
      <Canvas {...props} />
    </ReactFlowProvider>
  );
}

const MAP_FROM = 9;

function Canvas({ drawing, chosen, choose, label }: Props) {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const frame = useRef<HTMLDivElement>(null);
  const direction = useDirection(frame);
  const { fitView } = useReactFlow();
  const shape = JSON.stringify([
    drawing.boxes.map((box) => [box.id, box.rule, box.group?.total, box.progress !== undefined]),
    drawing.arrows.map((arrow) => [arrow.from, arrow.to]),
  ]);
  // Only another shape moves boxes. States, which change all the time, do not.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the shape is what counts
  const places = useMemo(() => placed(drawing, open, direction), [shape, open, direction]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: fits again when the shape is another
  useEffect(() => {
    const soon = requestAnimationFrame(() => void fitView({ padding: 0.12, maxZoom: 1.1 }));
    return () => cancelAnimationFrame(soon);
  }, [shape, direction, fitView]);

  const nodes = useMemo(() => {
    const toggle = (id: string) =>
      setOpen((before) => {
        const next = new Set(before);
        if (!next.delete(id)) next.add(id);
        return next;
      });
    return drawing.boxes.map((box): BoxNode => {
      const place = places.get(box.id);
      return {
        id: box.id,
        type: "box",
        position: { x: place?.x ?? 0, y: place?.y ?? 0 },
        width: place?.width,
        height: place?.height,
        selected: box.id === chosen,
        ariaLabel: `${box.title}${box.state ? `, ${words(box.state)}` : ""}`,
        data: { box, isOpen: open.has(box.id), toggle, direction },
      };
    });
  }, [drawing, places, open, chosen, direction]);
  const edges = useMemo(() => drawing.arrows.map(edgeOf), [drawing]);

  return (
    <div className="graph" ref={frame} role="group" aria-label={label}>
      <ReactFlow
        nodes={nodes}
        edges={edges}
        nodeTypes={KINDS}
        onNodeClick={(_, node) => choose?.(node.id)}
        onPaneClick={() => choose?.(undefined)}
        onKeyDown={(event) => {
          const id = (event.target as Element).closest<HTMLElement>(".react-flow__node")?.dataset.id;
          if (id && (event.key === "Enter" || event.key === " ")) choose?.(id);
        }}
        nodesDraggable={false}
        nodesConnectable={false}
        edgesFocusable={false}
        deleteKeyCode={null}
        minZoom={0.1}
        maxZoom={2}
        fitView
        fitViewOptions={{ padding: 0.12, maxZoom: 1.1 }}
        preventScrolling={false}
        zoomOnScroll={false}
        panOnScroll={false}
        zoomActivationKeyCode={["Control", "Meta"]}
      >
        <Background variant={BackgroundVariant.Dots} gap={18} size={1.2} color="var(--line)" />
        <Controls showInteractive={false} fitViewOptions={{ padding: 0.12, maxZoom: 1.1 }} />
        {drawing.boxes.length >= MAP_FROM && (
          <MiniMap
            pannable
            zoomable
            ariaLabel="Map of the graph"
            nodeClassName={(node) => `on-map s-${(node as BoxNode).data.box.state ?? "none"}`}
          />
        )}
      </ReactFlow>
    </div>
  );
}

function edgeOf(arrow: Arrow, index: number): Edge {
  const gone = arrow.state === "completed" || arrow.state === "running" || arrow.state === "failed";
  return {
    id: `${index}`,
    source: arrow.from,
    target: arrow.to,
    type: "default",
    label: arrow.label,
    className: `arrow ${gone ? "gone" : ""}`,
    data: { state: arrow.state },
    animated: arrow.state === "running",
    markerEnd: {
      type: MarkerType.ArrowClosed,
      width: 14,
      height: 14,
      color: gone ? "var(--ink-3)" : "var(--line-2)",
    },
    labelBgPadding: [6, 3],
    labelBgBorderRadius: 4,
  };
}

/** From left to right where there is room for it. */
function useDirection(frame: React.RefObject<HTMLDivElement | null>): Direction {
  const [direction, setDirection] = useState<Direction>(() => (innerWidth < 700 ? "TB" : "LR"));
  useEffect(() => {
    const shown = frame.current;
    if (!shown) return;
    const observer = new ResizeObserver(([entry]) => {
      if (entry) setDirection(entry.contentRect.width < 560 ? "TB" : "LR");
    });
    observer.observe(shown);
    return () => observer.disconnect();
  }, [frame]);
  return direction;
}

const BoxView = memo(function BoxView({ data, selected }: NodeProps<BoxNode>) {
  const { box, isOpen, toggle, direction } = data;
  const [into, out] = direction === "LR" ? [Position.Left, Position.Right] : [Position.Top, Position.Bottom];
  return (
    <div
      className="box"
      data-state={box.state ?? "none"}
      data-kind={box.kind}
      data-selected={selected}
      data-group={!!box.group}
    >
      <Handle type="target" position={into} isConnectable={false} />
      <div className="box-head">
        {box.state && (
          <span className="state">
            <StateIcon state={box.state} size={18} />
          </span>
        )}
        <div className="cut">
          <div className="box-title cut" title={box.title}>
            {box.title}
          </div>
          <div className="box-sub cut">
            {box.sub ?? (box.state ? words(box.state) : box.kind)}
            {box.isOutput && <span className="box-out"> · output</span>}
          </div>
        </div>
        {box.undo && (
          <span
            className="state"
            data-state={box.undo === "completed" ? "undoing" : box.undo}
            title={`undo ${words(box.undo)}`}
          >
            <StateIcon state="undoing" />
          </span>
        )}
        {box.group && (
          <button
            type="button"
            className="box-open nodrag"
            aria-expanded={isOpen}
            aria-label={`${isOpen ? "Hide" : "Show"} the elements of ${box.title}`}
            onClick={(event) => {
              event.stopPropagation();
              toggle(box.id);
            }}
          >
            <Icon name={isOpen ? "up" : "down"} size={13} />
          </button>
        )}
      </div>
      {box.rule && (
        <div className="box-rule cut" title={box.rule}>
          when {box.rule}
        </div>
      )}
      {box.group && <Progress value={box.group.total === 0 ? 1 : box.group.ended / box.group.total} />}
      {!box.group && box.progress !== undefined && <Progress value={box.progress} />}
      {box.group && isOpen && <Elements group={box.group} />}
      <Handle type="source" position={out} isConnectable={false} />
    </div>
  );
});

function Progress({ value }: { value: number }) {
  return (
    <div className="bar">
      <i style={{ width: `${Math.round(value * 100)}%` }} />
    </div>
  );
}

function Elements({ group }: { group: NonNullable<Box["group"]> }) {
  const shown = Math.min(group.total, MOST_ITEMS);
  return (
    <div className="elements">
      {Array.from({ length: shown }, (_, index) => {
        const item = group.items[index];
        const state = item?.state ?? "pending";
        return (
          <span
            key={index}
            className="state"
            data-state={state}
            title={`${item?.name ?? index}: ${words(state)}`}
          >
            <StateIcon state={state} size={12} />
          </span>
        );
      })}
      {group.total > shown && <span className="faint all">and {group.total - shown} more</span>}
    </div>
  );
}

const KINDS = { box: BoxView };
