// Types of the vendored module, as far as the console uses them.

export interface VNode { readonly type: unknown; readonly props: Record<string, unknown>; readonly key: unknown }
export type Child = VNode | string | number | boolean | null | undefined | readonly Child[];
export interface Ref<T> { current: T }

export function html(strings: TemplateStringsArray, ...values: unknown[]): VNode;
export function render(node: Child, parent: Element): void;
export function useState<T>(initial: T | (() => T)): [T, (next: T | ((before: T) => T)) => void];
export function useEffect(effect: () => void | (() => void), inputs?: readonly unknown[]): void;
export function useLayoutEffect(effect: () => void | (() => void), inputs?: readonly unknown[]): void;
export function useRef<T>(initial: T): Ref<T>;
export function useMemo<T>(make: () => T, inputs: readonly unknown[]): T;
export function useCallback<T extends Function>(callback: T, inputs: readonly unknown[]): T;
export function useErrorBoundary(report?: (error: unknown) => void): [unknown, () => void];
