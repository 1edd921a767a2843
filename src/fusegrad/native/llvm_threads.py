"""The functions that run one nest on several threads: LLVM IR, compiled once and shared by all kernels.

Threads are made at first use and wait for work. A call cuts its range into pieces; its own thread takes them from the
front and helpers from the back, as long as there are any, so that a helper that gets no processor (others use the
machine) delays nobody: the caller waits only for pieces that have been begun. What a call says of itself (its job)
lies in memory of its own and goes when the last one lets go of it, since a helper may come to look at it late.

A process that forks has no helpers at that moment (``stop``), and the child starts its own. Where the system has not
all functions that are needed, or no memory or thread can be had, kernels run in the calling thread.
"""

# What the code calls, in the order of @system; ``fusegrad_system`` is the address of the table (null: no threads).
FUNCTIONS = (
    "pthread_create", "pthread_join", "pthread_mutex_init", "pthread_mutex_lock", "pthread_mutex_unlock",
    "pthread_cond_init", "pthread_cond_wait", "pthread_cond_signal", "pthread_cond_broadcast", "sched_yield", "malloc",
    "free",
)  # fmt: skip
SYMBOLS = ("fusegrad_parallel", "fusegrad_system", "fusegrad_fresh", "fusegrad_stop")

_MOST = 64  # threads of a call, and places in the ring of jobs that wait for helpers
_PIECES = 4  # pieces of a call for each of its threads
_LOOKS = 4000  # looks at unfinished pieces before other threads are let run
_PEEKS = 1500  # looks of a helper for more work before it sleeps: 70 microseconds at most, so that kernels which follow
# each other find it awake (a kernel of 50 microseconds takes 30 then, and 50 where it must be woken)
_X86 = ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()")
_ARM = ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)")
_PAUSES = {"x86_64": _X86, "AMD64": _X86, "aarch64": _ARM, "arm64": _ARM}  # what leaves the core to others meanwhile

# The fields of a job, i64 each; those from "claimed" on change, atomically.
_JOB = ("nest", "ctx", "n", "length", "pieces", "claimed", "back", "done", "holders")


def text(machine: str) -> str:
    """The module for a machine (``platform.machine()``)."""
    declared, pause = _PAUSES.get(machine, ("", ""))
    job = {name: f"getelementptr i64, ptr %job, i64 {k}" for k, name in enumerate(_JOB)}
    system = {
        name: f"load ptr, ptr getelementptr (ptr, ptr @fusegrad_system, i64 {k})" for k, name in enumerate(FUNCTIONS)
    }
    return f"""
@fusegrad_system = global [{len(FUNCTIONS)} x ptr] zeroinitializer
@mutex = internal global [16 x i64] zeroinitializer, align 64
@work = internal global [16 x i64] zeroinitializer, align 64
@ring = internal global [{_MOST} x ptr] zeroinitializer
@ids = internal global [{_MOST} x i64] zeroinitializer
@first = internal global i64 0
@last = internal global i64 0
@helpers = internal global i64 0
@ending = internal global i64 0

; pieces of a job until there are none: from the front, or from the back
define internal void @take(ptr %job, i1 %front) nounwind {{
entry:
  %f = load ptr, ptr %job
  %p.ctx = {job["ctx"]}
  %ctx = load ptr, ptr %p.ctx
  %p.n = {job["n"]}
  %n = load i64, ptr %p.n
  %p.length = {job["length"]}
  %length = load i64, ptr %p.length
  %p.pieces = {job["pieces"]}
  %pieces = load i64, ptr %p.pieces
  %p.claimed = {job["claimed"]}
  %p.back = {job["back"]}
  %p.done = {job["done"]}
  %last = add i64 %pieces, -1
  br label %claim
claim:
  %own = phi i64 [0, %entry], [%own.next, %run]
  %c = atomicrmw add ptr %p.claimed, i64 1 acq_rel
  %any = icmp slt i64 %c, %pieces
  br i1 %any, label %which, label %none
which:
  br i1 %front, label %run, label %behind
behind:
  %b = atomicrmw add ptr %p.back, i64 1 acq_rel
  %from.end = sub i64 %last, %b
  br label %run
run:
  %k = phi i64 [%own, %which], [%from.end, %behind]
  %lo = mul i64 %k, %length
  %end = add i64 %lo, %length
  %hi = call i64 @llvm.smin.i64(i64 %end, i64 %n)
  call void %f(ptr %ctx, i64 %lo, i64 %hi)
  %d = atomicrmw add ptr %p.done, i64 1 acq_rel
  %own.next = add i64 %own, 1
  br label %claim
none:
  ret void
}}

define internal void @let_go(ptr %job) nounwind {{
  %p.holders = {job["holders"]}
  %before = atomicrmw sub ptr %p.holders, i64 1 acq_rel
  %is.last = icmp eq i64 %before, 1
  br i1 %is.last, label %drop, label %done
drop:
  %free = {system["free"]}
  call void %free(ptr %job)
  br label %done
done:
  ret void
}}

define internal ptr @helper(ptr %unused) nounwind {{
entry:
  %lock = {system["pthread_mutex_lock"]}
  %unlock = {system["pthread_mutex_unlock"]}
  %wait = {system["pthread_cond_wait"]}
  br label %next
next:
  br label %peek
peek:
  %peeks = phi i64 [0, %next], [%peeks.next, %peek]
  {pause}
  %peeks.next = add i64 %peeks, 1
  %seen.first = load atomic i64, ptr @first monotonic, align 8
  %seen.last = load atomic i64, ptr @last monotonic, align 8
  %still = icmp eq i64 %seen.first, %seen.last
  %early = icmp slt i64 %peeks, {_PEEKS}
  %more = and i1 %still, %early
  br i1 %more, label %peek, label %enter
enter:
  %r0 = call i32 %lock(ptr @mutex)
  br label %look
look:
  %end = load i64, ptr @ending
  %ends = icmp ne i64 %end, 0
  br i1 %ends, label %leave, label %stay
stay:
  %at = load i64, ptr @first
  %to = load i64, ptr @last
  %idle = icmp eq i64 %at, %to
  br i1 %idle, label %sleep, label %get
sleep:
  %r1 = call i32 %wait(ptr @work, ptr @mutex)
  br label %look
get:
  %slot = urem i64 %at, {_MOST}
  %p = getelementptr ptr, ptr @ring, i64 %slot
  %job = load ptr, ptr %p
  %at.next = add i64 %at, 1
  store i64 %at.next, ptr @first
  %r2 = call i32 %unlock(ptr @mutex)
  call void @take(ptr %job, i1 false)
  call void @let_go(ptr %job)
  br label %next
leave:
  %r3 = call i32 %unlock(ptr @mutex)
  ret ptr null
}}

; pieces of [0, n) for threads, all but the last a multiple of align long
define void @fusegrad_parallel(ptr %f, ptr %ctx, i64 %n, i64 %threads, i64 %align) nounwind {{
entry:
  %create = {system["pthread_create"]}
  %none = icmp eq ptr %create, null
  br i1 %none, label %serial, label %plan
serial:
  call void %f(ptr %ctx, i64 0, i64 %n)
  ret void
plan:
  %t = call i64 @llvm.smin.i64(i64 %threads, i64 {_MOST})
  %n.up = add i64 %n, %align
  %n.over = add i64 %n.up, -1
  %units = sdiv i64 %n.over, %align
  %wanted = mul i64 %t, {_PIECES}
  %cut = call i64 @llvm.smin.i64(i64 %wanted, i64 %units)
  %some = icmp sgt i64 %cut, 1
  br i1 %some, label %room, label %serial
room:
  %u.up = add i64 %units, %cut
  %u.over = add i64 %u.up, -1
  %each = sdiv i64 %u.over, %cut
  %length = mul i64 %each, %align
  %n.up2 = add i64 %n, %length
  %n.over2 = add i64 %n.up2, -1
  %pieces = sdiv i64 %n.over2, %length
  %malloc = {system["malloc"]}
  %job = call ptr %malloc(i64 {8 * len(_JOB)})
  %no.room = icmp eq ptr %job, null
  br i1 %no.room, label %serial, label %fill
fill:
  store ptr %f, ptr %job
  %p.ctx = {job["ctx"]}
  store ptr %ctx, ptr %p.ctx
  %p.n = {job["n"]}
  store i64 %n, ptr %p.n
  %p.length = {job["length"]}
  store i64 %length, ptr %p.length
  %p.pieces = {job["pieces"]}
  store i64 %pieces, ptr %p.pieces
  %p.claimed = {job["claimed"]}
  store i64 0, ptr %p.claimed
  %p.back = {job["back"]}
  store i64 0, ptr %p.back
  %p.done = {job["done"]}
  store i64 0, ptr %p.done
  %p.holders = {job["holders"]}
  %t.most = call i64 @llvm.smin.i64(i64 %t, i64 %pieces)
  %asked = add i64 %t.most, -1
  %lock = {system["pthread_mutex_lock"]}
  %unlock = {system["pthread_mutex_unlock"]}
  %r0 = call i32 %lock(ptr @mutex)
  %end = load i64, ptr @ending
  %ends = icmp ne i64 %end, 0
  br i1 %ends, label %count, label %staff
staff:
  %have = load i64, ptr @helpers
  %few = icmp slt i64 %have, %asked
  br i1 %few, label %hire, label %count
hire:
  %p.id = getelementptr i64, ptr @ids, i64 %have
  %code = call i32 %create(ptr %p.id, ptr null, ptr @helper, ptr null)
  %made = icmp eq i32 %code, 0
  br i1 %made, label %hired, label %count
hired:
  %have.next = add i64 %have, 1
  store i64 %have.next, ptr @helpers
  br label %staff
count:
  %there = load i64, ptr @helpers
  %at = load i64, ptr @first
  %to = load i64, ptr @last
  %full = sub i64 %to, %at
  %free = sub i64 {_MOST}, %full
  %can = call i64 @llvm.smin.i64(i64 %there, i64 %free)
  %calls = call i64 @llvm.smin.i64(i64 %can, i64 %asked)
  %holders = add i64 %calls, 1
  store i64 %holders, ptr %p.holders
  br label %push
push:
  %i = phi i64 [0, %count], [%i.next, %pushed]
  %more = icmp slt i64 %i, %calls
  br i1 %more, label %pushed, label %told
pushed:
  %place = add i64 %to, %i
  %slot = urem i64 %place, {_MOST}
  %p.slot = getelementptr ptr, ptr @ring, i64 %slot
  store ptr %job, ptr %p.slot
  %i.next = add i64 %i, 1
  br label %push
told:
  %to.next = add i64 %to, %calls
  store i64 %to.next, ptr @last
  %r1 = call i32 %unlock(ptr @mutex)
  %signal = {system["pthread_cond_signal"]}
  br label %wake
wake:
  %j = phi i64 [0, %told], [%j.next, %woken]
  %asleep = icmp slt i64 %j, %calls
  br i1 %asleep, label %woken, label %begin
woken:
  %r2 = call i32 %signal(ptr @work)
  %j.next = add i64 %j, 1
  br label %wake
begin:
  call void @take(ptr %job, i1 true)
  %yield = {system["sched_yield"]}
  br label %see
see:
  %looks = phi i64 [0, %begin], [%looks.next, %again]
  %d = load atomic i64, ptr %p.done acquire, align 8
  %left = icmp slt i64 %d, %pieces
  br i1 %left, label %unfinished, label %finished
unfinished:
  %looks.next = add i64 %looks, 1
  %long = icmp sgt i64 %looks, {_LOOKS}
  br i1 %long, label %give, label %again
give:
  %r3 = call i32 %yield()
  br label %again
again:
  br label %see
finished:
  call void @let_go(ptr %job)
  ret void
}}

; the state of a process without helpers
define void @fusegrad_fresh() nounwind {{
  %init = {system["pthread_mutex_init"]}
  %r0 = call i32 %init(ptr @mutex, ptr null)
  %cond = {system["pthread_cond_init"]}
  %r1 = call i32 %cond(ptr @work, ptr null)
  store i64 0, ptr @first
  store i64 0, ptr @last
  store i64 0, ptr @helpers
  store i64 0, ptr @ending
  ret void
}}

; ends all helpers, which finish what they have begun; jobs that wait for helpers stay for later ones
define void @fusegrad_stop() nounwind {{
entry:
  %lock = {system["pthread_mutex_lock"]}
  %unlock = {system["pthread_mutex_unlock"]}
  %r0 = call i32 %lock(ptr @mutex)
  store i64 1, ptr @ending
  %have = load i64, ptr @helpers
  %r1 = call i32 %unlock(ptr @mutex)
  %all = {system["pthread_cond_broadcast"]}
  %r2 = call i32 %all(ptr @work)
  %join = {system["pthread_join"]}
  br label %each
each:
  %k = phi i64 [0, %entry], [%k.next, %joins]
  %more = icmp slt i64 %k, %have
  br i1 %more, label %joins, label %joined
joins:
  %p.id = getelementptr i64, ptr @ids, i64 %k
  %id = load i64, ptr %p.id
  %r3 = call i32 %join(i64 %id, ptr null)
  %k.next = add i64 %k, 1
  br label %each
joined:
  %r4 = call i32 %lock(ptr @mutex)
  store i64 0, ptr @helpers
  store i64 0, ptr @ending
  %r5 = call i32 %unlock(ptr @mutex)
  ret void
}}
declare i64 @llvm.smin.i64(i64, i64)
{declared}
"""
