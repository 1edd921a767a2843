"""The function that runs one nest on several threads: LLVM IR, compiled once and shared by all kernels.

Threads are made for one call and joined: about 15 microseconds each, and nothing to keep, to share between callers,
or to survive a fork.  When a thread cannot be made, its part runs in the calling thread.
"""

# void fusegrad_parallel(nest, ctx, n, threads, align): parts of [0, n), all but the last a multiple of align long
TEXT = """@fusegrad_pthread_create = global ptr null
@fusegrad_pthread_join = global ptr null
define internal ptr @worker(ptr %job) nounwind {
  %f = load ptr, ptr %job
  %p1 = getelementptr i64, ptr %job, i64 1
  %ctx = load ptr, ptr %p1
  %p2 = getelementptr i64, ptr %job, i64 2
  %lo = load i64, ptr %p2
  %p3 = getelementptr i64, ptr %job, i64 3
  %hi = load i64, ptr %p3
  call void %f(ptr %ctx, i64 %lo, i64 %hi)
  ret ptr null
}
define void @fusegrad_parallel(ptr %f, ptr %ctx, i64 %n, i64 %threads, i64 %align) nounwind {
entry:
  %jobs = alloca i64, i64 256, align 16
  %ids = alloca i64, i64 64, align 16
  %codes = alloca i32, i64 64, align 16
  %t0 = call i64 @llvm.smin.i64(i64 %threads, i64 64)
  %n1 = add i64 %n, -1
  %c0 = sdiv i64 %n1, %t0
  %c1 = add i64 %c0, %align
  %c2 = sdiv i64 %c1, %align
  %chunk = mul i64 %c2, %align
  %create = load ptr, ptr @fusegrad_pthread_create
  %join = load ptr, ptr @fusegrad_pthread_join
  %none = icmp eq ptr %create, null
  br i1 %none, label %serial, label %start
serial:
  call void %f(ptr %ctx, i64 0, i64 %n)
  ret void
start:
  %k = phi i64 [1, %entry], [%k.next, %made]
  %lo = mul i64 %k, %chunk
  %more.a = icmp slt i64 %lo, %n
  %more.b = icmp slt i64 %k, %t0
  %more = and i1 %more.a, %more.b
  br i1 %more, label %make, label %own
make:
  %end = add i64 %lo, %chunk
  %hi = call i64 @llvm.smin.i64(i64 %end, i64 %n)
  %at = mul i64 %k, 4
  %job = getelementptr i64, ptr %jobs, i64 %at
  store ptr %f, ptr %job
  %j1 = getelementptr i64, ptr %job, i64 1
  store ptr %ctx, ptr %j1
  %j2 = getelementptr i64, ptr %job, i64 2
  store i64 %lo, ptr %j2
  %j3 = getelementptr i64, ptr %job, i64 3
  store i64 %hi, ptr %j3
  %id = getelementptr i64, ptr %ids, i64 %k
  %code = call i32 %create(ptr %id, ptr null, ptr @worker, ptr %job)
  %pcode = getelementptr i32, ptr %codes, i64 %k
  store i32 %code, ptr %pcode
  br label %made
made:
  %k.next = add i64 %k, 1
  br label %start
own:
  %mine = call i64 @llvm.smin.i64(i64 %chunk, i64 %n)
  call void %f(ptr %ctx, i64 0, i64 %mine)
  br label %wait
wait:
  %w = phi i64 [1, %own], [%w.next, %waited]
  %left = icmp slt i64 %w, %k
  br i1 %left, label %check, label %done
check:
  %wp = getelementptr i32, ptr %codes, i64 %w
  %wc = load i32, ptr %wp
  %ok = icmp eq i32 %wc, 0
  br i1 %ok, label %joins, label %alone
joins:
  %wid = getelementptr i64, ptr %ids, i64 %w
  %tid = load i64, ptr %wid
  %unused = call i32 %join(i64 %tid, ptr null)
  br label %waited
alone:
  %wat = mul i64 %w, 4
  %wjob = getelementptr i64, ptr %jobs, i64 %wat
  %unused2 = call ptr @worker(ptr %wjob)
  br label %waited
waited:
  %w.next = add i64 %w, 1
  br label %wait
done:
  ret void
}
declare i64 @llvm.smin.i64(i64, i64)"""
